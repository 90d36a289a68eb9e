"""What Gradescope and PrairieLearn lay out round an autograder, and what they do with it."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.report.feedback import sentence
from ringside.checking import requirements
from tests.autograder.platforms import box
from tests.autograder.platforms.box import Ended

DUE = "2026-03-01T23:59:00.000000+01:00"
MEMORY_MB = 1536  # Gradescope with 1 CPU
ON_TIME = "2026-03-01T20:11:12.345678+01:00"


@dataclass
class Graded:
    """What a platform got: its results, or none, and how the container ended."""

    results: dict[str, Any] | None
    ended: Ended
    folder: Path


def metadata(created_at: str = ON_TIME, due: str = DUE, **own_due: str) -> dict[str, Any]:
    """submission_metadata.json; `own_due` names the users and their own dates."""
    people = own_due or {"ada": due}
    return {
        "id": 123456,
        "created_at": created_at,
        "assignment": {
            "due_date": due, "group_size": 4, "group_submission": len(people) > 1, "id": 25828,
            "course_id": 1234, "late_due_date": None, "release_date": None,
            "title": "Programming Assignment 1", "total_points": "100.0",
        },
        "submission_method": "upload",
        "users": [
            {"email": f"{name}@uni.example", "id": at, "name": name.title(),
             "assignment": {"due_date": date, "late_due_date": None, "release_date": None}}
            for at, (name, date) in enumerate(people.items())
        ],
        "previous_submissions": [],
    }  # fmt: skip


def gradescope(
    package: Path,
    submission: Path,
    folder: Path,
    *,
    told: Mapping[str, Any] | None = None,
    **options: Any,
) -> Graded:
    """Grade a submission as Gradescope does, its image built already.

    Args:
        package: the autograder's zip.
        submission: a folder of what the student uploaded.
        folder: a new one for the container.
        told: submission_metadata.json.
        options: of ``box.run``.
    """
    autograder = folder / "autograder"
    (autograder / "source").mkdir(parents=True)
    (autograder / "results").mkdir()
    with zipfile.ZipFile(package) as archive:
        archive.extractall(autograder / "source")
    shutil.copy(autograder / "source" / "run_autograder", autograder)
    (autograder / "run_autograder").chmod(0o755)
    shutil.copytree(submission, autograder / "submission", symlinks=True)
    text = json.dumps(metadata() if told is None else told)
    (autograder / "submission_metadata.json").write_text(text)
    (folder / "root").mkdir()
    binds = {"/autograder": autograder}
    program = ["/autograder/run_autograder"]
    ended = box.run(program, binds, folder / "root", **{"memory_mb": MEMORY_MB, **options})
    (autograder / "results" / "stdout").write_text(ended.output)
    return Graded(_results(autograder / "results" / "results.json"), ended, folder)


def prairielearn(question: Path, submission: Path, folder: Path, **options: Any) -> Graded:
    """Grade a submission as PrairieLearn does, in an image whose Python has the libraries."""
    info = json.loads((question / "info.json").read_text())["externalGradingOptions"]
    grade = folder / "grade"
    (grade / "data").mkdir(parents=True)
    (grade / "data" / "data.json").write_text(json.dumps({"params": {}, "submitted_answers": {}}))
    shutil.copytree(question / "tests", grade / "tests")
    shutil.copytree(submission, grade / "student", symlinks=True)
    entry = info["entrypoint"]
    (grade / Path(entry).relative_to("/grade")).chmod(0o755)
    (folder / "root").mkdir()
    given = {"memory_mb": MEMORY_MB, "limit_s": float(info["timeout"])}
    given["env"] = {"PATH": f"{box.VENV}/bin:/usr/local/bin:/usr/bin:/bin"}
    ended = box.run([entry], {"/grade": grade}, folder / "root", **{**given, **options})
    return Graded(_results(grade / "results" / "results.json"), ended, folder)


def _results(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.is_file() else None


def points_as_here(
    rows: Mapping[str, Mapping[str, Any]],
    graded_here: Sequence[ModuleResult],
    score: str,
    most: str,
) -> float:
    """Each test has its points of `autograder grade`, and real MPI neither points nor a maximum.

    Args:
        rows: what a platform shows of each test, by its name there.
        graded_here: what `autograder grade` gives here.
        score, most: what the platform calls the points, and the maximum of a test.

    Returns:
        The points of the assignment that were earned.
    """
    weight = {"star": 10, "sharded_server": 15, "cost": 10}
    earned = 0.0
    for result in graded_here:
        share = weight[result.module] / 100
        simulated = [test for test in result.tests if test.name != "test_real_mpi"]
        for test in result.tests:
            row = rows[f"{result.module}: {sentence(test.name)}"]
            if test in simulated:
                assert row[score] == pytest.approx(test.earned * share, abs=1e-3), row
            else:
                assert (row[score], row[most]) == (0, 0)
        earned += requirements.score(result.requirements, simulated) * share
    return earned
