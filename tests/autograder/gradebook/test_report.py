"""The class report, its CSV, and who is alike."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path

import pytest
from rich.console import Console

from autograder.course import assignment as plans
from autograder.course import receipt
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import scores_csv
from autograder.grade.outcome import Outcome
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.report import rendering, report, similarity, summary
from autograder.safe_csv import safe_cell

RING = '''
def all_reduce(comm, x):
    """Sum x."""
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    for step in range(world_size - 1):
        lo, hi = shard_bounds(len(x), world_size, rank - step)
        comm.Sendrecv(total[lo:hi], (rank + 1) % world_size, recvbuf=total[hi:lo])
        total[lo:hi] += total[hi:lo]
    return total
'''


def test_many_copies_of_one_are_one_group() -> None:
    def match(
        first: str, second: str, ratio: float = 1.0, module: str = "ring"
    ) -> similarity.Match:
        return similarity.Match(module, first, second, ratio)

    found = [match("a", "b"), match("c", "d"), match("e", "f"), match("b", "c", 0.9)]
    assert similarity.groups([*found, match("a", "e", module="star")]) == [
        similarity.Lookalikes("ring", ("e", "f"), 1.0),
        similarity.Lookalikes("star", ("a", "e"), 1.0),
        similarity.Lookalikes("ring", ("a", "b", "c", "d"), 0.9),
    ]


def outcome(student: str, earned: float, **more: object) -> Outcome:
    results = {"one": ModuleResult("one", [TestResult("right", "", 100.0, earned)])}
    return Outcome(student, "graded", results=results, modules={"one": RING}, **more)  # type: ignore[arg-type]


def test_the_report_names_lost_points_and_likeness_to_what_is_shipped(
    plan: Assignment, course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        report, "_shipped", lambda *_: {report.SOLUTION: {"one": RING.replace("total", "acc")}}
    )
    class_ = [
        outcome("ada", 40.0),
        outcome("=bob\x1b[31m", 100.0),
        outcome("eve", 0.0, untouched=("one",)),
        Outcome("hana", "rejected", message="not valid JSON"),
    ]
    (failed,) = summary.hard_tests(plan, class_[:3])
    assert (failed.module, failed.name, failed.failed, failed.of) == ("one", "right", 1, 2)
    console = Console(width=140, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        report.print_report(console, report.of_class(plan, class_, course))
        text = console.export_text()
    flat = " ".join(text.split())
    assert "3 graded of 4; median 12, lowest 0, highest 30 of 100 points: modules 90, run 5" in flat
    assert "The text of 3 of 3 submissions is still to be graded by hand, and not in the" in flat
    assert "1 of 2" in text and "rejected" in text
    assert "(shipped solution)" in text and "100%" in text
    assert "\x1b" not in text


def test_right_forms_are_among_what_is_shipped() -> None:
    shipped = report._shipped(plans.load("a03_allreduce"), Course.here())
    forms = [name for name in shipped if name != report.SOLUTION]
    assert len(forms) > 20 and "(shipped star__any_source)" in forms
    assert "ANY_SOURCE" in shipped["(shipped star__any_source)"]["star"]
    assert not [name for name in forms if "barrier_at_the_end" in name]  # that one is wrong


def test_the_csv_is_safe_to_open_in_a_spreadsheet(plan: Assignment, tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    scores_csv.write(path, plan, [outcome('=HYPERLINK("x")', 50.0), outcome("-1+2", 0.0)])
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["student"] for row in rows] == ['\'=HYPERLINK("x")', "'-1+2"]
    assert rows[0]["score"] == "15.0" and rows[0]["one"] == "15.0"


def test_names_that_are_no_text_stop_neither_csv_nor_pages(
    plan: Assignment, tmp_path: Path
) -> None:
    odd = outcome("j\udcff\u202e", 80.0, notes=["\udcff.py is a link."])  # a name of other bytes
    scores_csv.write(tmp_path / "grades.csv", plan, [odd])
    assert "j?" in (tmp_path / "grades.csv").read_text(encoding="utf-8")
    (page,) = rendering.write_pages(tmp_path / "pages", plan, [odd])
    text = page.read_text(encoding="utf-8")
    assert "\ufffd.py is a link." in text and "\u202e" not in text


def test_what_the_grader_failed_on_has_no_score_in_the_csv(
    plan: Assignment, tmp_path: Path
) -> None:
    failed = outcome("ada", 50.0)
    failed.status = "grader_error"
    scores_csv.write(tmp_path / "scores.csv", plan, [failed])
    with (tmp_path / "scores.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    assert (row["status"], row["score"]) == ("grader_error", "")
    assert failed.as_json(plan)["score"] == 0.0


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", " =1", "\r=1", "|x", "%0A"])
def test_text_that_looks_like_a_formula_is_quoted(text: str) -> None:
    assert str(safe_cell(text)).startswith("'")
    assert str(safe_cell(text)).replace("'", "") == text


def test_ordinary_text_and_numbers_are_left_alone() -> None:
    assert [safe_cell(each) for each in ("ada", "a=b", -1.5, 0)] == ["ada", "a=b", -1.5, 0]


UTC = datetime.UTC
DUE = datetime.datetime(2026, 3, 1, 12)


def test_lateness_is_by_our_receipt_alone(course: Course, tmp_path: Path) -> None:
    moment = datetime.datetime(2026, 3, 1, 13, tzinfo=UTC)
    receipt.record(course, "a99_toy", "ada", moment)
    receipt.record(course, "a99_toy", "ada", moment + datetime.timedelta(hours=1))
    receipt.record(course, "a99_toy", "bob", moment)
    receipts = receipt.received(course, "a99_toy")
    assert receipt.late_seconds(receipts["ada"], DUE) == 7200
    assert receipt.late_seconds(receipts.get("eve"), DUE) == 0
    assert receipt.late_seconds(moment, None) == 0
    (tmp_path / "timestamp.txt").write_text("yesterday\n")
    assert receipt.stamp(tmp_path, moment) == "yesterday\n"
    assert (tmp_path / "timestamp.txt").read_text() == "2026-03-01 13:00:00.000000 UTC\n"
    assert receipt.stamp(tmp_path, moment) is None
    assert receipt.stamp(tmp_path, None) is not None
    assert not (tmp_path / "timestamp.txt").exists()
