"""Modules without a notebook, or beside a damaged one, count the same wherever one looks."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.collect import preparation, submissions
from autograder.commands import cli
from autograder.course import database, nbgrader_steps
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import class_grading, pipeline
from autograder.gradebook.nbgrader import csv_export
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import NAME, solved

Notebook = Callable[..., nbformat.NotebookNode]
HandIn = Callable[..., Path]

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
DAMAGED = (
    "The notebook is not valid JSON (line 1): it can't be opened. "
    "The files that were handed in beside it were graded instead: one.py, two.py."
)


@pytest.fixture(autouse=True)
def any_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)


def source(name: str) -> str:
    return solved(name).split("\n", 1)[1]


def by_suites(course: Course, tmp_path: Path, path: Path) -> dict[str, float]:
    out = tmp_path / "out.json"
    cli.main(["grade", NAME, str(path), "--json", str(out)])
    return {each["student"]: each["score"] for each in json.loads(out.read_text())["submissions"]}


def in_gradebook(course: Course) -> dict[str, object]:
    with database.open_gradebook(course) as book:
        return {row["student"]: row["raw_score"] for row in csv_export.rows(book, [NAME], [])}


def page(course: Course, student: str) -> str:
    return (course.build / "feedback" / student / NAME / f"{NAME}.html").read_text()


def test_nbgrader_and_our_commands_give_files_the_same_points_whatever_lies_beside_them(
    registered: Course,
    plan: Assignment,
    notebook: Notebook,
    hand_in: HandIn,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for student in ("files", "zipped", "windows"):
        registered.submitted(student, NAME).mkdir(parents=True)
    for name in ("one", "two"):
        (registered.submitted("files", NAME) / f"{name}.py").write_text(source(name))
        windows = "\ufeff" + source(name).replace("\n", "\r\n") + "\r\n"
        (registered.submitted("windows", NAME) / f"{name}.py").write_bytes(windows.encode())
    with zipfile.ZipFile(registered.submitted("zipped", NAME) / "mine.zip", "w") as archive:
        archive.writestr("two.py", source("two"))
    both = {"one__py": source("one"), "two__py": source("two")}
    hand_in("damaged", b"{ never a notebook", **both)
    hand_in("gone", b"x", **both)
    (registered.submitted("gone", NAME) / f"{NAME}.ipynb").unlink()
    (registered.submitted("gone", NAME) / f"{NAME}.ipynb").symlink_to(tmp_path)
    without = notebook(two=solved("two"))
    without.cells = [
        cell for cell in without.cells if cell.metadata.get("nbgrader", {}).get("grade_id") != "one"
    ]
    hand_in("cell", without, one__py=source("one"), two__py="'half'")
    hand_in("editor", notebook(), **both)  # the cells are as released
    hand_in("broken", b"{ never a notebook")
    expected = {
        "files": 90.0, "zipped": 60.0, "windows": 90.0, "damaged": 90.0, "gone": 90.0, "cell": 90.0,
        "editor": 90.0, "broken": 0.0,
    }  # fmt: skip
    before = by_suites(registered, tmp_path, registered.build / "submitted")
    assert before == expected
    said = capsys.readouterr().err
    assert f"autograder: damaged: {DAMAGED}\n" in said
    assert "cell: The cell 'one' is missing in the notebook: one.py, which was handed in" in said

    stored = sum(1 for _ in registered.results.rglob("*.json"))
    nbgrader_steps.autograde(registered, NAME)
    assert in_gradebook(registered) == expected
    assert sum(1 for _ in registered.results.rglob("*.json")) == stored  # nothing was graded twice
    # nbgrader needs a file in the place of the notebook; for us it is none
    assert by_suites(registered, tmp_path, registered.build / "submitted") == expected
    (registered.submitted("files", NAME) / "one.py").write_text("'half'")
    assert by_suites(registered, tmp_path, registered.submitted("files", NAME)) == {"files": 69.0}

    nbgrader_steps.generate_feedback(registered, NAME)
    assert DAMAGED.replace("'", "&#39;") in page(registered, "damaged")
    assert "is a symbolic link; only regular files are read. The files that" in page(
        registered, "gone"
    )
    assert "one.py, which was handed in beside it, counts." in page(registered, "cell")
    assert "one.py, which was handed in beside the notebook, counts." in page(registered, "editor")
    assert "could not be graded" in page(registered, "broken")
    assert "About the files" not in page(registered, "files")


def test_nbgrader_passes_over_nobody_whatever_lies_in_the_folder(
    registered: Course, hand_in: HandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for student, files in {
        "nested": ["hw/one.py"], "tree": ["ada/one.py", "bob/one.py"], "empty": [],
        "zips": ["a.zip", "b.zip"], "text": ["notes.txt"], "named": [f"{NAME}/one.py"],
    }.items():  # fmt: skip
        folder = registered.submitted(student, NAME)
        folder.mkdir(parents=True)
        for name in files:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(source("one"))
    expected = {"nested": 30, "tree": 0, "empty": 0, "zips": 0, "text": 0, "named": 30}
    nbgrader_steps.autograde(registered, NAME)
    assert in_gradebook(registered) == expected
    assert by_suites(registered, tmp_path, registered.build / "submitted") == expected
    (registered.submitted("a[b]", NAME)).mkdir(parents=True)  # for nbgrader it is a pattern
    with pytest.raises(database.GradebookError, match=r"not graded: a\[b\]\. The log"):
        nbgrader_steps.autograde(registered, NAME)


def test_report_export_and_table_say_what_was_taken(
    registered: Course, hand_in: HandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand_in("ada", b"{ never a notebook", one__py=source("one"), two__py=source("two"))
    table, html, marks = (tmp_path / name for name in ("table.csv", "page.html", "marks.csv"))
    folder = registered.build / "submitted"
    words = [NAME, str(folder)]
    assert cli.main(["grade", *words, "--csv", str(table), "--feedback", str(tmp_path / "p")]) == 0
    assert cli.main(["report", *words, "--html", str(html)]) == 0
    assert DAMAGED in " ".join(capsys.readouterr().out.split())
    assert cli.main(["export", *words, "--to", "csv", "--out", str(marks)]) == 0
    with table.open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["score"], row["message"]) == ("90.0", DAMAGED)
    with marks.open(newline="") as stream:
        (mark,) = csv.DictReader(stream)
    assert mark["comment"].startswith(DAMAGED)
    assert DAMAGED.replace("'", "&#39;") in html.read_text()
    assert DAMAGED.replace("'", "&#39;") in (tmp_path / "p" / "ada.html").read_text()


def test_a_loose_damaged_notebook_takes_no_files_of_others(
    plan: Assignment, course: Course, tmp_path: Path
) -> None:
    (tmp_path / "ada.ipynb").write_text("{")
    (tmp_path / "one.py").write_text(source("one"))
    with pytest.raises(pipeline.Rejected, match="not valid JSON"):
        preparation.prepare(plan, submissions.Submission("ada", tmp_path / "ada.ipynb"), course)
