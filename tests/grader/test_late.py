"""Grace days and extensions: from our receipts, in the order of due dates, through nbgrader."""

from __future__ import annotations

import csv
import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder import gradebook, late, receipt
from autograder.assignment import Assignment, AssignmentError
from autograder.course import Course
from autograder.late import DAY_S, Policy, spend

from .conftest import NAME, solved

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
        ("student,days\n", "first line"),
        ("student,assignment,days\nada,a99_toy,two\n", "line 2: 'two' is no number"),
        ("student,assignment,days\nada,a99_toy,-1\n", "line 2: '-1'"),
        ("student,assignment,days\nada,a,1\nada,a,2\n", "line 3: ada has an extension for a"),
    ):
        course.extensions.write_text(text)
        with pytest.raises(AssignmentError, match=said):
            late.extensions(course)
    course.extensions.write_text("student,assignment,days\nada,a99,1\n")
    with pytest.raises(AssignmentError, match=r"for 'a99', which is no assignment"):
        late.calendar(course)


def test_receipts_of_a_platform_are_read_or_their_line_is_named(course: Course) -> None:
    path = course.receipts(NAME)
    path.parent.mkdir(parents=True)
    path.write_text("\ufeffname,student,received\nAda, ada ,2030-01-01 13:00+01:00\n")
    assert receipt.received(course, NAME) == {"ada": DUE}
    for text, said in (
        ("student,time\nada,2030-01-01\n", "first line must be student,received"),
        ("student,received\nada,yesterday\n", "line 2: 'yesterday' is no moment"),
        ("student,received\nada\n", "line 2: None is no moment"),
    ):
        path.write_text(text)
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
    with gradebook.tools_on_path(), gradebook.Gradebook(f"sqlite:///{course.database}", "x"):
        pass
    later = dataclasses.replace(plan, due=DUE + datetime.timedelta(days=1))
    assert gradebook.other_due(course, later) == ""  # it has none of its own
    gradebook.set_due(course, NAME, DUE)
    assert gradebook.other_due(course, dataclasses.replace(plan, due=DUE)) == ""
    told = gradebook.other_due(course, later)
    assert 'assignment add a99_toy --duedate "2030-01-02 12:00:00 UTC"' in told


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
    gradebook.register(plan, course, tmp_path / "scratch")
    # An assignment before this one, in which two students have spent grace days.
    gradebook.set_due(course, "a98_before", DUE - datetime.timedelta(days=30))
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
        gradebook.autograde(course, NAME, who)
        with gradebook.open_gradebook(course) as book:
            found = {row["student"]: row for row in gradebook.rows(book, [NAME], [])}
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

    path = gradebook.export(course, NAME, tmp_path / "grades.csv")
    with path.open(newline="") as stream:
        scores = {row["student"]: float(row["score"]) for row in csv.DictReader(stream)}
    assert scores["spender"] == 72.0 and scores["more"] == 90.0
