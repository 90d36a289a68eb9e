"""Grace days and extensions: from our receipts, in the order of due dates, through nbgrader."""

from __future__ import annotations

import csv
import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.course import assignment as plans
from autograder.course import database, late, nbgrader_steps, receipt
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.course.late import DAY_S, Policy, spend
from autograder.gradebook.nbgrader import csv_export
from autograder.gradebook.nbgrader.release import register
from tests.autograder.conftest import NAME, solved

# nbgrader creates rows in ways that SQLAlchemy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
DUE = datetime.datetime(2030, 1, 1, 12, tzinfo=datetime.UTC)
POLICY = Policy(grace_days=5, grace_days_each=2)


@pytest.mark.parametrize(
    ("seconds", "penalty"), [(900, None), (901, 8.0), (86_401, 16.0), (30 * 86_400, 40.0)]
)
def test_without_grace_days_each_day_begun_costs_a_share(
    seconds: float, penalty: float | None
) -> None:
    assert late.LatePenalty().late_submission_penalty("ada", 80.0, seconds) == penalty


def test_grace_days_are_spent_in_the_order_of_due_dates_until_none_is_left() -> None:
    lateness = [("a", 2.5 * DAY_S), ("b", 0.0), ("c", 100.0), ("d", 2 * DAY_S), ("e", 9 * DAY_S)]
    found = spend(POLICY, lateness)
    assert "b" not in found  # in time
    assert (found["a"].days, found["a"].spent, found["a"].left) == (3, 2, 3)
    assert (found["c"].days, found["c"].left) == (0, 3)  # within a quarter of an hour
    assert (found["d"].spent, found["d"].left, found["d"].percent) == (2, 1, 0)
    assert (found["e"].spent, found["e"].left, found["e"].percent) == (1, 0, 50)
    assert found["a"].percent == 10
    assert found["a"].sentence == (
        "2 days of grace spent, 3 left; 1 day charged: 10 % of the score."
    )


def test_a_list_of_extensions_is_read_or_its_line_is_named(course: Course) -> None:
    course.build.mkdir()
    course.extensions.write_text("student,assignment,days\nada,a99_toy,1.5\n")
    assert late.extensions(course) == {("ada", "a99_toy"): datetime.timedelta(days=1.5)}
    for text, said in (
        ("student,days\n", "its first line is 'student,days'; assignment isn't in it"),
        ("student,assignment,days,hours\n", "'hours' is no column of it"),
        ("student,assignment,days\nada,a99_toy\n", "line 2: 2 cells, where the first line names 3"),
        ("student,assignment,days\nada,a99_toy,two\n", "line 2: 'two' is no number"),
        ("student,assignment,days\nada,a99_toy,-1\n", "line 2: '-1'"),
        ("student,assignment,days\nada,a,1\nada,a,2\n", "line 3: ada has an extension for a"),
    ):
        course.extensions.write_text(text)
        with pytest.raises(AssignmentError, match=said):
            late.extensions(course)
    course.extensions.write_text("student,assignment,days\nada,a99,1\n")
    with pytest.raises(AssignmentError, match=r"'a99', .* no assignment; did you mean 'a99_toy'"):
        late.calendar(course)
    course.extensions.write_text("student,assignment,days,note\nada,a99_toy,1,ill\n")
    assert len(late.calendar(course).extensions) == 1


def test_receipts_of_a_platform_are_read_or_their_line_is_named(course: Course) -> None:
    path = course.receipts(NAME)
    path.parent.mkdir(parents=True)
    path.write_text("\ufeffname,student,received\nAda, ada ,2030-01-01 13:00+01:00\n")
    assert receipt.received(course, NAME) == {"ada": DUE}
    for text, said in (
        (
            "student,time\nada,2030-01-01\n",
            "its first line is 'student,time'; received isn't in it. Write student,received",
        ),
        ("student;received\n", "its first line is 'student;received'; student isn't in it"),
        ("student,received\nada,yesterday\n", "line 2: 'yesterday' is no moment"),
        ("student,received\nada\n", "line 2: 1 cells, where the first line names 2: student"),
        ("student,received\nada,2030-01-01,8\n", "line 2: 3 cells, where the first line names 2"),
        ("student,received\n,2030-01-01\n", "line 2: the student is missing"),
        (
            "student,received\nada,2030-01-01\nbob,2030-01-01\nada,2030-01-02\n",
            r"line 4: ada has two receipts, 2030-01-01 00:00:00\+00:00 and 2030-01-02",
        ),
        ("student,received\n\xff", "Save it as CSV, in UTF-8, with commas"),
    ):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(AssignmentError, match=said):
            receipt.received(course, NAME)


def test_receipts_are_read_once_until_the_file_is_another(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = course.receipts(NAME)
    path.parent.mkdir(parents=True)
    reads: list[Path] = []
    read = receipt._read
    monkeypatch.setattr(receipt, "_read", lambda each: reads.append(each) or read(each))
    # What was written a moment ago is read each time: the next write may look the same.
    for hour in (1, 2):
        path.write_text(f"student,received\nada,2030-01-01T0{hour}:00:00+00:00\n")
        assert receipt.received(course, NAME)["ada"].hour == hour
    assert len(reads) == 2
    monkeypatch.setattr(receipt, "_TICK_NS", 0)
    for _ in range(3):
        assert receipt.received(course, NAME)["ada"].hour == 2
    assert len(reads) == 3
    receipt.record(course, NAME, "bob", DUE)
    assert set(receipt.received(course, NAME)) == {"ada", "bob"}


def test_a_due_date_that_the_gradebook_overrules_is_told(plan: Assignment, course: Course) -> None:
    course.build.mkdir()
    with database.Gradebook(f"sqlite:///{course.database}", "x"):
        pass
    later = dataclasses.replace(plan, due=DUE + datetime.timedelta(days=1))
    assert database.other_due(course, later) == ""  # it has none of its own
    database.set_due(course, NAME, DUE)
    assert database.other_due(course, dataclasses.replace(plan, due=DUE)) == ""
    told = database.other_due(course, later)
    assert 'assignment add a99_toy --duedate "2030-01-02 12:00:00 UTC"' in told


def test_a_date_of_the_course_goes_before_the_kits_and_its_file_is_checked(
    plan: Assignment, course: Course
) -> None:
    assert plan.due == DUE
    for text, said in (
        ("due = 1\n", r"course\.toml, line 1: due = 1: a table is wanted"),
        ("[deu]\na99_toy = 1\n", r"deu = .*: there is no such key; did you mean 'due'\?"),
        ("[due]\na99 = 2030-01-01T00:00:00Z\n", r"line 2: \[due\]: a99 = .* mean 'a99_toy'\?"),
        ("[due]\na99_toy = 2030-01-01\n", r"line 2: \[due\]: a99_toy = 2030-01-01: a date with"),
        ("[due\n", r"course\.toml: "),
    ):
        course.settings.write_text(text)
        with pytest.raises(AssignmentError, match=said):
            plans.load(NAME, course)
    course.settings.write_text("[due]\na99_toy = 2031-01-01T13:00:00+01:00\n")
    assert plans.load(NAME, course).due_utc == datetime.datetime(2031, 1, 1, 12)
    assert late.calendar(course).due[NAME] == datetime.datetime(2031, 1, 1, 12)
    course.settings.unlink()
    assert plans.load(NAME, course).due == DUE


def test_a_line_that_is_removed_takes_its_effect_back(
    registered: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
) -> None:
    course = registered

    def graded() -> tuple[float, float]:
        nbgrader_steps.autograde(course, NAME, "ada")
        with database.open_gradebook(course) as book:
            (row,) = csv_export.rows(book, [NAME], [])
        return row["late_seconds"] / DAY_S, row["late_penalty"]

    hand_in("ada", notebook(one=solved("one"), two=solved("two")))
    receipt.record(course, NAME, "ada", DUE + datetime.timedelta(days=3))
    assert graded() == (3, 9)  # a day after two of grace
    course.extensions.write_text("student,assignment,days\nada,a99_toy,2\n")
    assert graded() == (1, 0)
    assert late.seconds_late(course, NAME) == {"ada": DAY_S}
    course.extensions.write_text("student,assignment,days\n")
    assert late.seconds_late(course, NAME) == {"ada": 3 * DAY_S}
    assert graded() == (3, 9)

    course.settings.write_text("[due]\na99_toy = 2030-01-05T12:00:00Z\n")
    assert graded() == (0, 0)
    course.settings.unlink()
    assert late.seconds_late(course, NAME) == {"ada": 3 * DAY_S}
    assert graded() == (3, 9)

    course.receipts(NAME).write_text("student,received\n")
    assert graded() == (0, 0)


@pytest.fixture
def three_days_late(
    registered: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
) -> Course:
    """A course in which ada handed in three days after the due date, and was autograded."""
    hand_in("ada", notebook())
    receipt.record(registered, NAME, "ada", DUE + datetime.timedelta(days=3))
    nbgrader_steps.autograde(registered, NAME)
    return registered


def test_what_a_person_has_set_in_nbgrader_goes_before_the_files_dates(
    three_days_late: Course,
) -> None:
    course = three_days_late
    database.set_due(course, NAME, DUE + datetime.timedelta(days=1))
    with database.open_gradebook(course) as book:
        book.grant_extension(NAME, "ada", days=1)
    for text in ("[due]\na99_toy = 2030-01-09T12:00:00Z\n", ""):
        course.settings.write_text(text)
        late.tell(course)
        assert late.seconds_late(course, NAME) == {"ada": DAY_S}
        assert "is due 2030-01-02 12:00:00 UTC by the gradebook, which goes first" in (
            database.other_due(course, plans.load(NAME, course))
        )


def test_an_extension_that_a_person_gave_in_nbgrader_lasts(
    three_days_late: Course,
) -> None:
    course = three_days_late
    with database.open_gradebook(course) as book:
        book.grant_extension(NAME, "ada", days=1)
    for _ in range(2):
        nbgrader_steps.autograde(course, NAME, "ada")
        late.tell(course)
        assert late.seconds_late(course, NAME) == {"ada": 2 * DAY_S}


def test_the_gradebook_gets_penalties_after_grace_days_and_extensions(
    plan: Assignment,
    course: Course,
    notebook: Callable[..., nbformat.NotebookNode],
    hand_in: Callable[..., Path],
    tmp_path: Path,
) -> None:
    source = course.source(NAME)
    source.parent.mkdir(parents=True)
    source.symlink_to(Course(kit=course.kit, root=course.kit).source(NAME))
    register(plan, course, tmp_path / "scratch")
    # An assignment before this one, in which two students have spent grace days.
    database.set_due(course, "a98_before", DUE - datetime.timedelta(days=30))
    for student, days in (("spender", 2.0), ("twice", 1.5)):
        moment = DUE - datetime.timedelta(days=30 - days)
        receipt.record(course, "a98_before", student, moment)
    course.extensions.write_text("student,assignment,days\nlonger,a99_toy,3\nmore,a99_toy,10\n")
    for student, days in (
        ("spender", 4.0), ("twice", 2.0), ("longer", 6.0), ("more", 9.0), ("intime", -1.0),
    ):  # fmt: skip
        hand_in(student, notebook(one=solved("one"), two=solved("two")))
        receipt.record(course, NAME, student, DUE + datetime.timedelta(days=days))

    for who in ("*", "longer"):  # again: nothing is spent twice, no extension counts twice
        nbgrader_steps.autograde(course, NAME, who)
        with database.open_gradebook(course) as book:
            found = {row["student"]: row for row in csv_export.rows(book, [NAME], [])}
        assert {name: row["late_penalty"] for name, row in found.items()} == {
            "spender": 18.0,  # 4 days, 2 of grace
            "twice": 0.0,
            "longer": 9.0,  # 3 days after the extension, 2 of grace
            "more": 0.0,
            "intime": 0.0,
        }
    assert found["longer"]["late_seconds"] == 3 * DAY_S  # nbgrader knows of the extension
    assert [each.left for each in late.account(course, "spender").values()] == [3, 1]
    assert late.account(course, "more") == {} == late.account(course, "intime")
    assert set(late.of_assignment(course, NAME)) == {"spender", "twice", "longer"}
    assert late.seconds_late(course, NAME)["longer"] == 3 * DAY_S

    # With two days in all, one who spent them before has none left.
    few = Policy(grace_days=2, grace_days_each=2)
    assert late.account(course, "spender", few)[NAME].percent == 40

    path = csv_export.export(course, NAME, tmp_path / "grades.csv")
    with path.open(newline="") as stream:
        scores = {row["student"]: float(row["score"]) for row in csv.DictReader(stream)}
    assert scores["spender"] == 72.0 and scores["more"] == 90.0
