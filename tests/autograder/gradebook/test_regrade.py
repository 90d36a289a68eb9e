"""A suite is mended: who gets other points and why is shown first, and only that is written."""

from __future__ import annotations

import datetime
import gc
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.converters import GenerateFeedback
from nbgrader.utils import capture_log

from autograder import digests
from autograder.commands import cli
from autograder.course import database, nbgrader_steps, receipt
from autograder.course.course import Course
from autograder.grade import cache, class_grading, pipeline
from autograder.grade.pipeline import Sources
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.nbgrader import csv_export, grading_record
from autograder.sandbox.sandbox import Tier
from tests.autograder.conftest import KIT, NAME, solved, toy_grader

pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
_MODULES = {
    "star", "sharded_server", "ring", "recursive", "cost", "tree", "ring_torch", "hierarchical",
}  # fmt: skip
HALF = "%%module one.py\n'half'"


@pytest.fixture
def graded_class(
    registered: Course,
    monkeypatch: pytest.MonkeyPatch,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
) -> Course:
    """Three students in the gradebook; `half` has a paragraph that a person has read."""
    monkeypatch.setattr(class_grading, "best_tier", lambda **_: Tier.NONE)
    hand_in("half", notebook(one=HALF, words="It was slow."))
    hand_in("full", notebook(one=solved("one"), two=solved("two")))
    hand_in("none", notebook())
    nbgrader_steps.autograde(registered, NAME)
    with database.open_gradebook(registered) as book:
        words = book.find_grade("words", NAME, NAME, "half")
        words.manual_score, words.needs_manual_grade = 4.0, False
        book.find_comment("words", NAME, NAME, "half").manual_comment = "Say why."
        more = book.find_grade("check_two", NAME, NAME, "half")
        more.manual_score, more.needs_manual_grade = 7.0, False
        book.db.commit()
    return registered


@pytest.fixture
def mend(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Change module one's suite: half an answer earns more. Gives the modules that were run."""

    def change(fails: str = "") -> list[str]:
        ran: list[str] = []

        def mended(assignment: str, sources: Sources, module: str) -> ModuleResult:
            ran.append(module)
            result = toy_grader(assignment, sources, module)
            text = sources[module]
            if fails and fails in text:
                raise OSError("no room for the sandbox")
            if "half" in text:
                result.tests[0].earned = 45.0
                result.tests[0].message = "Only the sign is wrong."
            return result

        digest = cache.kit_digest

        def other(kit: Path, assignment: str, module: str) -> str:
            return digest(kit, assignment, module) + ("mended" if module == "one" else "")

        monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: mended)
        monkeypatch.setattr(cache, "kit_digest", other)
        return ran

    return change


def words(table: str) -> str:
    """The text of a table, without its lines."""
    return " ".join(table.translate({ord(each): " " for each in "│┃"}).split())


def scores(course: Course) -> dict[str, float]:
    with database.open_gradebook(course) as book:
        return {row["student"]: row["raw_score"] for row in csv_export.rows(book, [NAME], [])}


def test_only_what_a_mended_suite_affects_is_run_and_written_once_it_was_shown(
    graded_class: Course, mend: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert scores(graded_class) == {"half": 20.0, "full": 90.0, "none": 0.0}
    ran = mend()
    content = graded_class.database.read_bytes()

    assert cli.main(["regrade", NAME, "--dry-run"]) == 0
    shown = words(capsys.readouterr().out)
    assert sorted(ran) == ["one", "one", "one"]
    assert "half" in shown and "full" not in shown
    assert "9 13.5 the answer is right: 9 -> 13.5. Only the sign is wrong." in shown
    assert "1 student with other points; 2 as before." in shown

    assert cli.main(["regrade", NAME]) == 1  # nobody is there to be asked
    assert "the gradebook stays as it is" in capsys.readouterr().err
    assert graded_class.database.read_bytes() == content

    others = {
        path: path.stat().st_mtime_ns
        for path in graded_class.build.glob("autograded/*/*/*.ipynb")
        if "half" not in path.parts
    }
    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "Written for 1 student." in capsys.readouterr().out
    assert scores(graded_class) == {"half": 24.5, "full": 90.0, "none": 0.0}
    assert len(others) == 2
    assert {path: path.stat().st_mtime_ns for path in others} == others
    assert len(ran) == 3  # all else was in the store

    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "0 students with other points; 3 as before." in capsys.readouterr().out


def test_what_a_person_has_given_stays_and_is_not_asked_for_again(
    graded_class: Course, mend: Callable[..., list[str]]
) -> None:
    mend()
    assert cli.main(["regrade", NAME, "half", "--yes"]) == 0
    with database.open_gradebook(graded_class) as book:
        words = book.find_grade("words", NAME, NAME, "half")
        assert (words.manual_score, words.needs_manual_grade) == (4.0, False)
        assert book.find_comment("words", NAME, NAME, "half").manual_comment == "Say why."
        other = book.find_grade("check_two", NAME, NAME, "half")
        # Neither the submission nor what its tests give is another: there is nothing to look at.
        assert (other.manual_score, other.needs_manual_grade) == (7.0, False)


def test_where_the_grader_fails_the_earlier_grade_stays_and_others_are_written(
    graded_class: Course, mend: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    mend(fails="one is solved")
    assert cli.main(["regrade", NAME, "--yes"]) == 2
    told = capsys.readouterr()
    assert "full keeps the earlier grade: The grader failed. one: OSError: no room" in told.err
    assert "1 as before; 1 where the grader failed." in told.out
    assert scores(graded_class) == {"half": 24.5, "full": 90.0, "none": 0.0}


def test_a_student_who_is_not_in_the_gradebook_is_told_and_left(
    graded_class: Course,
    hand_in: Callable[..., Path],
    notebook: Callable[..., nbformat.NotebookNode],
    capsys: pytest.CaptureFixture[str],
) -> None:
    hand_in("new", notebook(one=solved("one")))
    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "3 as before; 1 not in the gradebook yet" in capsys.readouterr().out
    assert cli.main(["regrade", NAME, "nobody"]) == 2
    assert "nobody handed in no a99_toy" in capsys.readouterr().err


def test_the_reasons_name_tests_that_came_and_went(
    graded_class: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    path = graded_class.build / "graded" / NAME / "full.json"
    content = json.loads(path.read_text())
    part = content["parts"]["one"]
    part["points"] = 12.0
    part["tests"] = {
        "the answer is fast": {"earned": 0.0, "points": 40.0, "says": "Too\x1b[31m slow."},
        "an old one": {"earned": 40.0, "points": 60.0, "says": "Half."},
    }
    path.write_text(json.dumps(content))
    assert cli.main(["regrade", NAME, "--dry-run"]) == 0
    out = capsys.readouterr().out
    shown = words(out)
    assert "\x1b" not in out
    assert "12 30 the answer is right: new, 18 points" in shown
    assert "the answer is fast: 0 -> 12. it passes now; it said: Too" in shown
    assert "an old one: there is no such test any more" in shown
    path.write_text("{")
    assert grading_record.read(graded_class, NAME, "full") is None


def page_of(course: Course, student: str) -> str:
    return (course.feedback(student, NAME) / f"{NAME}.html").read_text()


def test_a_regrade_renews_the_pages_that_are_there_and_says_how_to_release_them(
    graded_class: Course, mend: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    nbgrader_steps.generate_feedback(graded_class, NAME, "half")
    assert "<strong>9</strong> of 30 points" in page_of(graded_class, "half")
    mend()
    assert cli.main(["regrade", NAME, "--yes"]) == 0
    assert "<strong>13.5</strong> of 30 points" in page_of(graded_class, "half")
    assert "Only the sign is wrong." in page_of(graded_class, "half")
    assert not graded_class.feedback("full", NAME).exists()  # nobody had asked for it
    out = words(capsys.readouterr().out)
    assert "1 feedback page made anew." in out
    assert f"`nbgrader release_feedback {NAME}` releases the new ones." in out


def test_an_extension_changes_the_page_though_nobody_grades_again(graded_class: Course) -> None:
    due = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
    receipt.record(graded_class, NAME, "half", due + datetime.timedelta(hours=78))
    unforced(GenerateFeedback, graded_class)
    assert "4 points are taken off" in page_of(graded_class, "half")
    others = graded_class.build.glob("*/full/*/*")
    before = {path: path.stat().st_mtime_ns for path in others}

    graded_class.extensions.write_text(f"student,assignment,days\nhalf,{NAME},7\n")
    assert "The page is of an earlier grade" in unforced(GenerateFeedback, graded_class)
    assert "taken off" not in page_of(graded_class, "half")
    with database.open_gradebook(graded_class) as book:
        words_ = book.find_grade("words", NAME, NAME, "half")
        assert (words_.manual_score, words_.needs_manual_grade) == (4.0, False)  # it was read
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert len(before) == 5  # what a student has whom nothing changed


def test_points_by_hand_make_a_page_old(graded_class: Course) -> None:
    nbgrader_steps.generate_feedback(graded_class, NAME)
    untouched = (graded_class.feedback("full", NAME) / f"{NAME}.html").stat().st_mtime_ns
    with database.open_gradebook(graded_class) as book:
        book.find_grade("words", NAME, NAME, "half").manual_score = 2.5
        book.find_comment("words", NAME, NAME, "half").manual_comment = "Say why it is slow."
        book.db.commit()
    unforced(GenerateFeedback, graded_class)
    page = page_of(graded_class, "half")
    assert "<strong>2.5</strong> of 5 points" in page and "Say why it is slow." in page
    path = graded_class.feedback("full", NAME) / f"{NAME}.html"
    assert path.stat().st_mtime_ns == untouched


def unforced(converter: Any, course: Course) -> str:
    """One of nbgrader's commands as a person types it, without --force; gives its log."""
    gc.collect()  # an earlier one in this process holds the course's lock until it is collected
    config, coursedir = nbgrader_steps._directory(course)
    coursedir.assignment_id = NAME
    with nbgrader_steps.quiet():
        return nbgrader_steps._call(
            lambda: capture_log(converter(coursedir=coursedir, config=config))
        )


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """The suites and solutions of an assignment, to be changed."""
    for place in ("solutions/a03_allreduce",):
        shutil.copytree(KIT / place, tmp_path / place)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "affected"),
    [
        ("solutions/a03_allreduce/checks/test_ring.py", _MODULES),
        ("solutions/a03_allreduce/cost.py", set()),
        ("solutions/a03_allreduce/ring.py", set()),
        ("solutions/a03_allreduce/notebook.py", set()),
        ("solutions/a03_allreduce/assignment.toml", set()),
        ("solutions/a03_allreduce/hidden/cases.py", _MODULES),
        ("solutions/a03_allreduce/given/shards.py", _MODULES),
    ],
)
def test_a_change_affects_the_modules_whose_tests_import_it(
    kit: Path, changed: str, affected: set[str]
) -> None:
    names = [path.stem.removeprefix("test_") for path in kit.glob("solutions/*/checks/test_*.py")]
    assert len(names) == 8
    before = {name: cache.kit_digest(kit, "a03_allreduce", name) for name in names}
    with (kit / changed).open("a") as file:
        file.write("\nMENDED = 1\n")
    digests.forget()
    after = {name: cache.kit_digest(kit, "a03_allreduce", name) for name in names}
    assert {name for name in names if before[name] != after[name]} == affected


def test_where_imports_cannot_be_told_everything_counts(kit: Path) -> None:
    suite = kit / "solutions/a03_allreduce/checks/test_ring.py"
    few = digests.suite_files(kit, "a03_allreduce", "ring")
    suite.write_text("import importlib\n" + suite.read_text())
    everything = digests.suite_files(kit, "a03_allreduce", "ring")
    assert few < everything and len(everything) >= 20
    suite.write_text("def broken(:\n")
    assert digests.suite_files(kit, "a03_allreduce", "ring") == everything
