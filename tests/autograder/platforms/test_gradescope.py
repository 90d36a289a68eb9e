"""Gradescope's autograder, in a container as Gradescope documents it."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path

import pytest

from autograder.course.course import Course
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.report.feedback import sentence
from autograder.platforms.gradescope import autograder_zip
from autograder.platforms.settings import Settings
from ringside.output_folder import FolderError
from ringside.ranks import landlock
from tests.autograder.platforms import box, places

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(bool(box.why_not()), reason=box.why_not() or "-"),
]
confining = pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")


def test_the_zip_holds_one_assignment_and_nothing_that_stays_at_home(
    package: Path, reference: Path
) -> None:
    with zipfile.ZipFile(package) as archive:
        names = set(archive.namelist())
        assert {"setup.sh", "run_autograder"} <= names
        solutions = {name for name in names if name.startswith("kit/solutions/")}
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    own = "kit/solutions/a03_allreduce/"
    assert all(name.startswith(own) for name in solutions)
    assert {f"{own}hidden/cases.py", f"{own}checks/test_ring.py"} <= solutions
    at_home = ("verify/", "answers.md", "notebook.py")
    assert not [n for n in solutions if n.removeprefix(own).startswith(at_home)]
    assert all((reference / name).exists() for name in at_home if name.endswith("/") or "." in name)
    assert not modes["kit/course_secret.txt"] & 0o077
    assert modes["run_autograder"] & 0o100
    assert not stat.S_IMODE(package.stat().st_mode) & 0o077


def test_a_zip_of_somebody_elses_is_not_replaced(
    tmp_path: Path, a03_course: Course, package: Path
) -> None:
    from autograder.course import assignment as plans

    other = tmp_path / "mine.zip"
    other.write_bytes(b"PK")
    with pytest.raises(FolderError, match="did not make"):
        autograder_zip.make(
            plans.load("a03_allreduce", a03_course),
            a03_course,
            other,
            Settings("a03_allreduce", 10, 1, {}),
        )
    assert other.read_bytes() == b"PK"


@confining
@pytest.mark.sandbox
@pytest.mark.slow
def test_a_submission_has_the_points_of_autograder_grade_but_for_real_mpi(
    package: Path,
    mixed: Path,
    graded_here: list[ModuleResult],
    points_without_real_ranks: float,
    tmp_path: Path,
) -> None:
    # Two days and an hour late; of the two authors, one has an extension of a day.
    told = places.metadata(
        created_at="2026-03-04T00:59:00+01:00",
        ada="2026-03-01T23:59:00+01:00",
        bob="2026-03-02T23:59:00+01:00",
    )
    graded = places.gradescope(package, mixed, tmp_path / "box", told=told)
    assert graded.ended.status == 0, graded.ended.output
    assert graded.ended.out_of_memory == 0
    results = graded.results
    assert results is not None
    assert results["stdout_visibility"] == "hidden"
    assert results["visibility"] == "after_due_date"
    assert {test["visibility"] for test in results["tests"]} == {"after_due_date"}
    rows = {test["name"]: test for test in results["tests"]}
    earned = places.points_as_here(rows, graded_here, "score", "max_score")
    for module in ("star", "sharded_server"):
        assert (
            "no real ranks can be started"
            in rows[f"{module}: {sentence('test_real_mpi')}"]["output"]
        )
    most = results["extra_data"]["max_score"]
    assert most == pytest.approx(points_without_real_ranks, abs=1e-4)
    # Late by a day and an hour after bob's date: the kit's two days of grace cover it.
    assert results["extra_data"]["late_penalty"] == 0
    assert "2 days of grace spent" in results["output"]
    assert results["score"] == pytest.approx(earned, abs=0.02)
    assert results["extra_data"]["students"] == ["ada@uni.example", "bob@uni.example"]
    # The hostile star tried everything, and was right: nothing that it tried has succeeded.
    star = [test for name, test in rows.items() if name.startswith("star: ")]
    assert [test["score"] for test in star] == [test["max_score"] for test in star]
    assert sum(test["score"] for test in star) > 9
    assert 0 < sum(t["score"] for n, t in rows.items() if n.startswith("sharded_server:")) < 14
    folder = graded.folder / "autograder"
    for name in ("source", "submission", "results"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700, name


def test_in_a_container_too_small_for_the_reference_nothing_is_graded(
    package: Path, mixed: Path, tmp_path: Path
) -> None:
    with box.group(512) as groups:
        if groups.memory is None:
            pytest.skip("needs memory control groups of version 1, in which this machine has none")
    graded = places.gradescope(package, mixed, tmp_path / "box", memory_mb=512)
    assert graded.ended.status == 1
    assert graded.results is None
    assert "The container has 512 MB, and the reference of a03_allreduce alone" in (
        graded.ended.output
    )


@confining
def test_what_can_not_be_read_is_said_at_once(package: Path, tmp_path: Path) -> None:
    own = tmp_path / "submission"
    own.mkdir()
    (own / "a03_allreduce.zip").write_bytes(b"no zip")
    graded = places.gradescope(package, own, tmp_path / "box")
    assert graded.results is not None, graded.ended.output
    assert graded.results["score"] == 0
    assert graded.results["visibility"] == "visible"
    assert "can't be read" in graded.results["output"]


def test_where_nothing_confines_submissions_nothing_runs_and_no_score_is_written(
    package: Path, mixed: Path, tmp_path: Path
) -> None:
    graded = places.gradescope(package, mixed, tmp_path / "box", landlock=False)
    assert graded.ended.status == 1
    assert graded.results is None
    assert "NOT GRADED" in graded.ended.output
    assert "no sandbox works on this machine" in graded.ended.output


@confining
def test_what_would_be_cut_off_by_the_platform_ends_before_with_a_reason(
    package: Path, tmp_path: Path
) -> None:
    hasty = tmp_path / "hasty.zip"
    with zipfile.ZipFile(package) as archive, zipfile.ZipFile(hasty, "w") as other:
        for info in archive.infolist():
            data = archive.read(info)
            if info.filename == "kit/platform.json":
                data = json.dumps({**json.loads(data), "minutes": 0.55}).encode()
            other.writestr(info, data)
    own = tmp_path / "submission"
    own.mkdir()
    (own / "star.py").write_text(
        "import time\n\n\ndef all_reduce(comm, x):\n    time.sleep(15)\n    return x\n"
    )
    graded = places.gradescope(hasty, own, tmp_path / "box")
    assert graded.ended.status == 1
    assert graded.results is None
    assert "It was not graded within" in graded.ended.output
