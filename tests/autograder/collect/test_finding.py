"""Who hands in is the layout's to say: nothing inside a submission adds or hides a student."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.collect import completeness, preparation, submissions
from autograder.collect.quarantine import Rejected
from autograder.collect.submissions import Layout, PathError, Submission
from autograder.commands import cli
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import class_grading, pipeline
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import NAME, solved, toy_grader

SOURCE = {name: solved(name).split("\n", 1)[1] for name in ("one", "two")}


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)


def write(folder: Path, *names: str) -> Path:
    """Files of these names: modules hold a solution, archives a module, a folder ends with /."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("one.py", SOURCE["one"])
        else:
            path.write_text(SOURCE.get(path.stem, "{}"))
    return folder


def grade(tmp_path: Path, *words: object) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out.json"
    status = cli.main(["grade", NAME, *map(str, words), "--json", str(out)])
    return status, {each["student"]: each for each in json.loads(out.read_text())["submissions"]}


EVE = {  # what eve hands in, and what she has earned
    "a folder named after the assignment": ([f"{NAME}/one.py"], 30),
    "the same beside her module": (["one.py", f"{NAME}/two.py"], 30),
    "a tree": ([f"ada/{NAME}/one.py", f"bob/{NAME}/two.py"], 0),
    "a class": (["ada/one.py", "bob/two.py", "zed/one.py"], 0),
    "a class called submitted": (["submitted/ada/one.py", "submitted/bob/one.py"], 0),
    "a notebook in a nested folder": ([f"hw/mine/{NAME}.ipynb"], 0),
    "modules in a nested folder": (["hw/mine/one.py"], 30),
    "archives": (["a.zip", "b.zip"], 0),
    "names of a platform": (["ada_1_2_one.py", "bob_3_4_one.py"], 0),
    "nothing": (["empty/"], 0),
}


@pytest.mark.parametrize("what", EVE)
@pytest.mark.parametrize("layout", ["class", "paths", "submitted", "named"])
def test_whatever_one_hands_in_all_are_in_the_table_under_their_names(
    course: Course, tmp_path: Path, what: str, layout: str
) -> None:
    files, score = EVE[what]
    of_tree = layout == "submitted"
    place = course.build / "submitted" if of_tree else tmp_path / "class"
    inside = f"/{NAME}" if of_tree else ""
    write(place, f"ada{inside}/one.py", f"bob{inside}/two.py", f"zed{inside}/one.py")
    write(place / f"eve{inside}", *files)
    paths = sorted(place.iterdir()) if layout == "paths" else [place]
    words = ["--layout", "class"] if layout == "named" else []
    _, report = grade(tmp_path, *paths, *words)
    scores = {student: each["score"] for student, each in report.items()}
    assert scores == {"ada": 30, "bob": 60, "zed": 30, "eve": score}
    assert report["ada"]["status"] == "graded"


def test_what_is_no_submission_is_told_with_its_student(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = write(tmp_path / "class", "ada/one.py", "bob/", "cy/a/", "cy/b/", "_dan/one.py",
                  "eve.tar.gz", "fay.py", "gus/a.zip", "gus/b.ipynb", "gus/c.ipynb",
                  ".git/one.py", "__MACOSX/ada/one.py", "grades.csv")  # fmt: skip
    (place / "hal").symlink_to(place / "ada")
    status, report = grade(tmp_path, place)
    assert status == 2
    states = {student: each["status"] for student, each in report.items()}
    assert states == {
        "ada": "graded", "bob": "graded", "_dan": "graded", "cy": "rejected",
        "eve.tar": "rejected", "fay": "rejected", "gus": "rejected", "hal": "rejected",
    }  # fmt: skip
    assert "one archive is looked for, and there are a/, b/." in report["cy"]["message"]
    assert report["gus"]["message"].endswith("there are a.zip, b.ipynb, c.ipynb.")
    assert report["hal"]["message"].startswith("hal is a symbolic link and no folder")
    assert "bob: None of the modules is in what was handed in." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "layout", "students"),
    [
        (["one.py", "figures/x.png", "old/one.py"], None, {"place"}),
        ([f"{NAME}.ipynb", f"{NAME}.zip", "scratch.ipynb"], None, {"place"}),
        (["mine.ipynb", "figures/x.png"], None, {"place"}),
        ([f"ada/{NAME}/one.py", f"bob/{NAME}/one.py", "cy/"], None, {"ada", "bob", "cy"}),
        ([f"ada/{NAME}/one.py", "bob/a98_other/x.py"], "submitted", {"ada"}),
        (["one.py", "ada/one.py", "bob/one.py"], "submission", {"place"}),
        (["one.py", "ada/one.py", "bob/one.py"], "class", {"one", "ada", "bob"}),
        (["ada.zip", "bob/hw/one.py"], None, {"ada", "bob"}),
    ],
)
def test_a_folder_is_read_by_the_names_at_its_top_or_as_the_layout_says(
    plan: Assignment, tmp_path: Path, names: list[str], layout: Layout | None, students: set[str]
) -> None:
    place = write(tmp_path / "place", *names)
    assert {each.student for each in submissions.find(plan, [place], layout)} == students


def test_a_class_may_lie_in_a_folder_named_after_the_assignment(
    plan: Assignment, tmp_path: Path
) -> None:
    place = write(tmp_path / NAME, "ada/one.py", "bob.zip")
    assert {each.student for each in submissions.find(plan, [place])} == {"ada", "bob"}
    loose = write(tmp_path / "x" / NAME, "ada.ipynb", "bob.ipynb")
    assert {each.student for each in submissions.find(plan, sorted(loose.iterdir()))} == {
        "ada",
        "bob",
    }
    own = write(tmp_path / "submitted" / "cy" / NAME, "a/one.py", "b/one.py")
    assert [each.student for each in submissions.find(plan, [own])] == ["cy"]


def test_a_folder_that_could_be_read_in_two_ways_is_an_error_that_names_the_cure(
    plan: Assignment, tmp_path: Path
) -> None:
    place = write(tmp_path / "class", f"{NAME}.ipynb", "bob.ipynb", "eve/one.py")
    said = r"and bob.ipynb, eve/: it could be .* --layout submission, or --layout class"
    with pytest.raises(PathError, match=said):
        submissions.find(plan, [place])
    assert {each.student for each in submissions.find(plan, [place], "class")} == {
        "bob",
        "eve",
        NAME,
    }
    with pytest.raises(PathError, match="is no download"):
        submissions.find(plan, [place], "download")


def test_an_archive_of_a_student_is_no_download_among_others(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = write(tmp_path / "class", "ada.zip", "bob.zip")
    with zipfile.ZipFile(place / "eve.zip", "w") as archive:
        archive.writestr("ada_1_2_one.py", SOURCE["one"])
        archive.writestr("bob_3_4_one.py", SOURCE["one"])
    _, report = grade(tmp_path, *sorted(place.iterdir()))
    assert {name: each["score"] for name, each in report.items()} == {
        "ada": 30,
        "bob": 30,
        "eve": 0,
    }
    assert "eve.zip looks like a download from Canvas. Among other" in capsys.readouterr().err


def test_a_zip_in_a_zip_is_its_authors_rejection(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    write(tmp_path, "inner.zip")
    with zipfile.ZipFile(tmp_path / "eve.zip", "w") as archive:
        archive.write(tmp_path / "inner.zip", "deep/inner.zip")
    with pytest.raises(Rejected, match="no archive in an archive"):
        preparation.prepare(plan, Submission("eve", tmp_path / "eve.zip"), course)


def test_only_an_archive_costs_a_process(
    plan: Assignment, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    run = subprocess.run

    def counted(*words: Any, **options: Any) -> Any:
        started.append(words)
        return run(*words, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    place = write(tmp_path / "class", "ada/one.py", "bob.ipynb", f"cy/{NAME}.ipynb", "dan.zip")
    outcomes = pipeline.GradingSession(plan, course, toy_grader).grade(
        submissions.find(plan, [place])
    )
    assert len(outcomes) == 4 and len(started) == 1


def test_a_student_who_gets_lost_on_the_way_fails_the_run(
    plan: Assignment, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = submissions.find(plan, [write(tmp_path / "class", "ada/one.py", "bob/one.py")])
    session = pipeline.GradingSession(plan, course, toy_grader)
    read: Callable[..., Any] = session._read
    monkeypatch.setattr(session, "_read", lambda each: read(found[0]))
    with pytest.raises(
        completeness.RollError, match="bob handed in and is missing; ada is there without"
    ):
        session.grade(found)


def test_a_submission_that_our_reading_fails_on_stops_nobody_else(
    plan: Assignment, course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = submissions.find(plan, [write(tmp_path / "class", "ada/one.py", "bob/one.py")])
    prepare = pipeline.prepare

    def failing(plan: Assignment, submission: Submission, course: Course) -> Any:
        if submission.student == "ada":
            raise MemoryError("4 GiB")
        return prepare(plan, submission, course)

    monkeypatch.setattr(pipeline, "prepare", failing)
    ada, bob = pipeline.GradingSession(plan, course, toy_grader).grade(found)
    assert (ada.status, bob.status) == ("grader_error", "graded")
    assert ada.message == "The grader failed while it read the submission. MemoryError: 4 GiB"
