"""Marks on other platforms: columns as they want them, people matched by id, no formulas."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.commands import cli
from autograder.commands import options as shared
from autograder.course import database
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.late import Late
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook import marks
from autograder.gradebook.marks import ExportError, Mark
from autograder.platforms.canvas import marks as canvas
from autograder.platforms.gradescope import results as gradescope
from autograder.platforms.moodle import marks as moodle
from autograder.platforms.roster import Roster
from tests.autograder.conftest import NAME, solved, toy_grader

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Other (7),A toy (4711),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,10,90,(read only)
"Adeyemi, Ada",1023,u77,ada@uni.example,1,8,,
"Bartha, Bela",1024,u78,BELA,1,9,50,
"Test, Student",1025,,,1,,,
"""
WORKSHEET = """Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,Last modified (submission),Last modified (grade),Feedback comments
Participant 11,Ada Adeyemi,ada@uni.example,Submitted,,95.00,Yes,"Sunday, 1 March 2026, 9:00 PM",-,
Participant 12,=Bela,bela@uni.example,No submission,12,95.00,Yes,-,-,was here
"""  # noqa: E501


def outcome(student: str, earned: float, message: str = "") -> Outcome:
    tests = [
        TestResult("test_right", "values", 60.0, earned, message, seconds=2.0),
        TestResult("test_fast", "", 40.0, 40.0, seconds=1.0),
    ]
    tests[0].reproduce = "ringside run one.py"
    results = {"one": ModuleResult("one", tests)}
    return Outcome(student, "graded", results=results, modules={"one": "x"})


@pytest.fixture
def class_(plan: Assignment) -> list[Outcome]:
    failed = Outcome("eve", "grader_error", message="The grader failed. one: no sandbox")
    return [outcome("ada", 60.0), outcome("bela", 30.0, "rank 1 has <b>3</b>"), failed]


@pytest.fixture
def found(plan: Assignment, class_: list[Outcome]) -> list[Mark]:
    late = {"bela": Late(NAME, 2e5, 3, 2, 1, 10.0)}
    return marks.from_outcomes(plan, class_, late)


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def roster(tmp_path: Path, text: str) -> Roster:
    path = tmp_path / "roster.csv"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    return Roster.read(path)


def test_a_mark_says_what_was_earned_and_what_lateness_took(found: list[Mark]) -> None:
    ada, bela, eve = found
    assert (ada.raw_score, ada.late_penalty, ada.score) == (30.0, 0.0, 30.0)
    assert (bela.raw_score, bela.late_penalty, bela.score) == (21.0, 2.1, 18.9)
    assert bela.value(raw=True) == 21.0
    assert eve.score is None  # the grader's fault is no zero
    assert "one: 21 of 30. rank 1 has <b>3</b>" in bela.comment
    assert "2 days of grace spent, 1 left; 1 day charged: 10 %" in bela.comment
    assert "two: 0 of 60, not begun" in ada.comment


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_who_is_not_graded_in_the_gradebook_has_no_score_and_who_is_not_in_it_is_named(
    plan: Assignment,
    course: Course,
    class_: list[Outcome],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    course.build.mkdir()
    with database.Gradebook(f"sqlite:///{course.database}", "x") as book:
        book.add_assignment(NAME)
        book.add_notebook(NAME, NAME)
        book.add_grade_cell("check_one", NAME, NAME, max_score=30, cell_type="code")
        book.add_student("ada")
        book.add_submission(NAME, "ada")
    ada, bela = marks.from_gradebook(course, plan, class_[:2], {})
    assert (ada.student, ada.raw_score, ada.missing) == ("ada", None, "not autograded yet")
    assert bela.missing == f"handed in, and not in the gradebook: `nbgrader autograde {NAME}`"
    for student in ("ada", "bela"):
        course.submitted(student, NAME).mkdir(parents=True)
    monkeypatch.setattr(shared, "grade_paths", lambda *_: class_[:2])
    out = tmp_path / "out.csv"
    assert cli.main(["export", NAME, "--to", "csv", "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert "2 grades are unfinished, so nothing is written:\n  ada: not autograded yet" in told
    assert "  bela: handed in, and not in the gradebook" in told and not out.exists()


def test_canvas_gets_its_own_columns_and_nothing_else(
    plan: Assignment, found: list[Mark], tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    known = roster(tmp_path, CANVAS)
    assert canvas.write(path, plan, found[:2], roster=known) == 2
    assert rows(path) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "A toy (4711)"],
        ["    Points Possible", "", "", "", "", "95.0"],
        ["Adeyemi, Ada", "1023", "u77", "ada@uni.example", "1", "30.0"],
        ["Bartha, Bela", "1024", "u78", "BELA", "1", "18.9"],
        ["Test, Student", "1025", "", "", "1", ""],
    ]
    canvas.write(path, plan, found[:2], roster=known, column="Other (7)", raw=True)
    assert [row[-1] for row in rows(path)] == ["Other (7)", "95.0", "30.0", "21.0", ""]


def test_canvas_without_a_roster_knows_people_by_login(
    plan: Assignment, found: list[Mark], tmp_path: Path
) -> None:
    canvas.write(tmp_path / "out.csv", plan, [*found, Mark("=1+1", "graded", 1.0, 0.0, 90.0)])
    table = rows(tmp_path / "out.csv")
    assert table[2] == ["ada", "", "", "ada", "", "30.0"]
    assert table[4] == ["eve", "", "", "eve", "", ""]  # an empty cell changes nothing there
    assert table[5][0] == table[5][3] == "'=1+1"


def test_who_is_in_no_row_is_named_and_nothing_is_written(
    plan: Assignment, found: list[Mark], tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(ExportError, match=r"1 of 3 students are in no row of .*: eve\. Looked"):
        canvas.write(path, plan, found, roster=roster(tmp_path, CANVAS))
    assert not path.exists()
    assert canvas.write(path, plan, found, roster=roster(tmp_path, CANVAS), leave_out=True) == 2
    with pytest.raises(ExportError, match="no export of Canvas' gradebook"):
        canvas.write(path, plan, found, roster=roster(tmp_path, "name,grade\nada,1\n"))
    twice = CANVAS + '"Adeyemi, A.",1026,ada,,2,,,\n'
    with pytest.raises(ExportError, match="more than one row or student is 'ada'"):
        canvas.write(path, plan, found[:2], roster=roster(tmp_path, twice))
    with pytest.raises(ExportError, match="more than one column 'ID'"):
        roster(tmp_path, "Student,ID,ID\n")


def test_moodles_worksheet_keeps_its_cells_and_gets_grade_and_feedback(
    plan: Assignment, found: list[Mark], tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    assert moodle.write(path, plan, found[:1], roster=roster(tmp_path, WORKSHEET)) == 1
    head, ada, bela = (dict(zip(rows(path)[0], row, strict=True)) for row in rows(path))
    assert list(head) == WORKSHEET.splitlines()[0].split(",")
    assert (ada["Identifier"], ada["Grade"]) == ("Participant 11", "30.0")
    assert ada["Last modified (grade)"] == "-" and ada["Feedback comments"].startswith("one: 30 of")
    assert (bela["Grade"], bela["Feedback comments"]) == ("12", "was here")
    assert bela["Full name"] == "'=Bela"
    moodle.write(path, plan, found[1:2], roster=roster(tmp_path, WORKSHEET))
    assert "&lt;b&gt;3&lt;/b&gt;<br>" in rows(path)[2][-1]  # Moodle takes it for HTML
    with pytest.raises(ExportError, match=r"maximum grade is 100\.00 in Moodle and 95 here"):
        other = roster(tmp_path, WORKSHEET.replace("95.00", "100.00"))
        moodle.write(path, plan, found[:1], roster=other)


def test_moodles_import_has_a_person_a_grade_and_feedback(
    plan: Assignment, found: list[Mark], tmp_path: Path
) -> None:
    path = tmp_path / "out.csv"
    assert moodle.write(path, plan, found) == 2  # whom the grader failed is left out
    head, ada, _ = rows(path)
    assert head == ["Username", "Email address", "A toy", "Feedback"]
    assert ada[:3] == ["ada", "", "30.0"]
    people = roster(tmp_path, "ID number,Email address\n7,ADA@uni.example\n8,bela@uni.example\n")
    moodle.write(path, plan, found[:2], roster=people)
    assert [row[:3] for row in rows(path)[1:]] == [
        ["7", "ADA@uni.example", "30.0"],
        ["8", "bela@uni.example", "18.9"],
    ]


def test_gradescope_gets_a_file_a_submission(
    plan: Assignment, found: list[Mark], class_: list[Outcome], tmp_path: Path
) -> None:
    assert gradescope.write(tmp_path, plan, found, class_, visibility="visible") == 2
    assert not (tmp_path / "eve").exists()
    told = json.loads((tmp_path / "bela" / "results.json").read_text())
    assert told["score"] == 18.9 and told["execution_time"] == 3.0
    assert told["output"] == "21 of 95 points.\nLateness takes 2.1 off: 18.9 are left."
    right, fast, run = told["tests"]
    assert (run["name"], run["max_score"]) == ("run.json: one.py on the cluster", 5.0)
    assert (right["name"], right["score"], right["max_score"]) == ("one: right", 9.0, 18.0)
    assert (right["status"], fast["status"]) == ("failed", "passed")
    assert right["output"] == "rank 1 has <b>3</b>\nringside run one.py"
    assert "output" not in fast and right["visibility"] == told["visibility"] == "visible"
    assert sum(test["score"] for test in told["tests"]) == told["extra_data"]["raw_score"]
    alike = [dataclasses.replace(found[0], student=name) for name in ("a b", "a/b")]
    outcomes = [dataclasses.replace(class_[0], student=mark.student) for mark in alike]
    assert gradescope.write(tmp_path / "alike", plan, alike, outcomes) == 2
    assert len(list((tmp_path / "alike").iterdir())) == 2


def test_the_command_exports_what_is_handed_in(
    course: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert toy_grader  # in the place of the suites
    hand_in("ada", notebook(one=solved("one")))
    hand_in("bela", notebook())
    out = tmp_path / "marks.csv"
    words = ["export", NAME, "--trust-submissions", "--out", str(out)]
    assert cli.main([*words, "--to", "csv"]) == 0
    assert [row[:8] for row in rows(out)[1:]] == [
        ["ada", "", "", "", "graded", "30.0", "0.0", "30.0"],
        ["bela", "", "", "", "graded", "0.0", "0.0", "0.0"],
    ]
    assert "2 scores (lateness taken off)" in capsys.readouterr().out
    people = tmp_path / "canvas.csv"
    people.write_text(CANVAS)
    out.unlink()
    assert cli.main([*words, "--to", "canvas", "--roster", str(people)]) == 0
    assert rows(out)[2][-1] == "30.0"
    assert cli.main([*words, "--to", "csv", "--roster", str(people)]) == 2
    assert "needs none" in capsys.readouterr().err
    assert cli.main([*words, "--to", "gradescope"]) == 2  # a file stands where its folder should
    refused = capsys.readouterr()
    assert f"{out} can't be written: Not a directory." in refused.err and not refused.out
    assert rows(out)[2][-1] == "30.0"
