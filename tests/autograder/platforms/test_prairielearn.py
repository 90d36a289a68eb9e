"""PrairieLearn's question and its external grader, in a container as PrairieLearn documents it."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from autograder.grade.suite.result import ModuleResult
from ringside.ranks import landlock
from tests.autograder.platforms import box, places

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(bool(box.why_not()), reason=box.why_not() or "-"),
]
confining = pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")


def test_the_question_names_its_image_and_its_files(question: Path) -> None:
    info = json.loads((question / "info.json").read_text())
    assert info["type"] == "v3"
    assert info["gradingMethod"] == "External"
    options = info["externalGradingOptions"]
    assert options["enabled"] and not options["enableNetworking"]
    assert options["image"] == "registry.example/ringside:1"
    assert 0 < options["timeout"] <= 600  # PrairieLearn's own limit
    entry = Path(options["entrypoint"]).relative_to("/grade")
    assert (question / entry).stat().st_mode & 0o100
    page = (question / "question.html").read_text()
    [names] = re.findall(r'<pl-file-upload optional-file-names="([^"]*)">', page)
    assert {"ring.py", "a03_allreduce.ipynb", "run.json"} <= set(names.split(", "))
    assert "<pl-external-grader-results>" in page
    assert not (question / "server.py").exists()
    assert stat.S_IMODE(question.stat().st_mode) == 0o700  # the hidden suite is in it
    inside = {path.name for path in (question / "tests/kit/solutions").rglob("*")}
    assert "test_ring.py" in inside
    assert not inside & {"verify", "answers.md", "notebook.py"}


@confining
@pytest.mark.sandbox
@pytest.mark.slow
def test_a_submission_has_the_points_of_autograder_grade_but_for_real_mpi(
    question: Path,
    mixed: Path,
    graded_here: list[ModuleResult],
    points_without_real_ranks: float,
    tmp_path: Path,
) -> None:
    graded = places.prairielearn(question, mixed, tmp_path / "box")
    assert graded.ended.status == 0, graded.ended.output
    results = graded.results
    assert results is not None and results["gradable"] is True
    rows = {test["name"]: test for test in results["tests"]}
    earned = places.points_as_here(rows, graded_here, "points", "max_points")
    assert results["score"] == pytest.approx(earned / points_without_real_ranks, abs=1e-3)
    assert "not part of the maximum" in results["message"]


def test_where_nothing_confines_submissions_no_attempt_is_used_up(
    question: Path, mixed: Path, tmp_path: Path
) -> None:
    graded = places.prairielearn(question, mixed, tmp_path / "box", landlock=False)
    assert graded.ended.status == 1
    assert graded.results is not None
    assert graded.results["gradable"] is False
    assert "score" not in graded.results
    assert "NOT GRADED" in graded.ended.output
    assert "sandbox" not in json.dumps(graded.results)  # the log has it, for the instructor
