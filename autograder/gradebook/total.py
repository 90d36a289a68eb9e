"""The course's total: a student a row, an assignment a column, weighted by course.toml.

    total = 100 * sum(weight * score / maximum) / sum(weight)      over the assignments that count

An assignment counts once its due date has passed and somebody has handed it in. Who didn't hand it
in has 0 in it. An assignment from which a student is excused leaves both sums. `drop_lowest` then
takes the assignments with the least share of their maximum from both. Scores are the gradebook's,
lateness taken off. A grade that is unfinished is no zero: there is no total then.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from autograder.course import assignment as plans
from autograder.course import late, settings
from autograder.course.course import Course
from autograder.gradebook.marks import ExportError
from autograder.gradebook.nbgrader import csv_export
from autograder.safe_csv import write_csv
from autograder.terminal import printable

__all__ = ["CourseTotal", "Total", "of_course", "table", "total_of", "write"]

UNFINISHED, EXCUSED = "unfinished", "excused"


@dataclass(frozen=True)
class Total:
    """One student's row; a cell is a score, or says why there is none."""

    student: str
    last_name: str
    first_name: str
    cells: Mapping[str, float | str]
    dropped: tuple[str, ...]
    percent: float | None  # None: something is unfinished, or nothing counts
    missing: str = ""


@dataclass(frozen=True)
class CourseTotal:
    """The table: maxima and weights of what counts so far, and the rows."""

    of: Mapping[str, float]
    weights: Mapping[str, float]
    rows: Sequence[Total]
    later: Sequence[str]  # assignments with a weight that don't count yet

    def share(self, name: str) -> float:
        """An assignment's percent of the total, of what counts so far."""
        return 100 * self.weights[name] / sum(self.weights.values())


def total_of(
    cells: Mapping[str, float | str],
    of: Mapping[str, float],
    weights: Mapping[str, float],
    drop_lowest: int,
) -> tuple[float | None, tuple[str, ...]]:
    """A student's total in percent, and the assignments that were dropped.

    >>> total_of({"a": 5.0, "b": 10.0, "c": 0.0}, {"a": 10, "b": 10, "c": 10},
    ...          {"a": 1, "b": 3, "c": 4}, 1)
    (87.5, ('c',))
    """
    shares = {name: cell / of[name] for name, cell in cells.items() if isinstance(cell, float)}
    if UNFINISHED in cells.values():
        return None, ()
    # Of equal shares the heavier one goes first, then the first by name.
    lowest = sorted(shares, key=lambda name: (shares[name], -weights[name], name))
    # One is always left, since of none there is no total.
    dropped = tuple(sorted(lowest[: min(drop_lowest, len(lowest) - 1)])) if lowest else ()
    whole = sum(weights[name] for name in shares.keys() - set(dropped))
    if not whole:
        return None, dropped
    names = [name for name in shares if name not in dropped]
    return 100 * sum(weights[name] * shares[name] for name in names) / whole, dropped


def of_course(course: Course, now: datetime.datetime | None = None) -> CourseTotal:
    """The total of each student of the gradebook.

    Args:
        now: naive UTC; an assignment that is due later doesn't count yet.

    Raises:
        ExportError: there are no weights, or nothing is graded.
        TableError: the course's file is wrong.
    """
    term = settings.term(course, tuple(plans.known(course)))
    weights = {name: weight for name, weight in term.weights.items() if weight}
    if not weights:
        example = next(iter(plans.known(course)), "a03_allreduce")
        raise ExportError(
            f"{course.settings} has no [weights]: write `{example} = 10` below that line, and so "
            "on for each assignment that counts."
        )
    if not course.database.is_file():
        raise ExportError(
            f"There is no gradebook at {course.database}: `nbgrader autograde NAME` writes one."
        )
    now = now or datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    due = late.calendar(course).due
    records = csv_export.finished(course, list(weights))
    begun = {row["assignment"] for row in records if row["needs_manual_grade"]}  # yes, or no
    # One without a due date counts as soon as somebody has handed it in.
    names = [n for n in sorted(weights) if n in begun and due.get(n, now) <= now]
    of = {str(row["assignment"]): _number(row) for row in records if row["max_score"]}
    if nothing := [name for name in names if not of.get(name)]:
        raise ExportError(f"{nothing[0]} has a weight and no points: take it from [weights].")
    weights_now = {name: weights[name] for name in names}
    people: dict[str, dict[str, dict[str, object]]] = {}
    for row in records:
        people.setdefault(str(row["student"]), {})[str(row["assignment"])] = row
    rows = [
        _total(student, {name: marks[name] for name in names}, of, weights_now, term.drop_lowest)
        for student, marks in sorted(people.items())
    ]
    later = sorted(weights.keys() - set(names))
    return CourseTotal({name: of[name] for name in names}, weights_now, rows, later)


def _number(row: Mapping[str, object]) -> float:
    return float(str(row["max_score"]))


def _total(
    student: str,
    own: Mapping[str, Mapping[str, object]],
    of: Mapping[str, float],
    weights: Mapping[str, float],
    drop_lowest: int,
) -> Total:
    cells = {name: _cell(row) for name, row in own.items()}
    percent, dropped = total_of(cells, of, weights, drop_lowest)
    first = next(iter(own.values()), {})
    lacks = [f"{name}: {row['missing'] or 'not graded yet'}" for name, row in own.items()
             if cells[name] == UNFINISHED]  # fmt: skip
    names = str(first.get("last_name", "")), str(first.get("first_name", ""))
    return Total(student, *names, cells, dropped, percent, "; ".join(lacks))


def _cell(row: Mapping[str, object]) -> float | str:
    if row.get("excused"):
        return EXCUSED
    return UNFINISHED if row["score"] == "" else float(str(row["score"]))


def write(path: Path, found: CourseTotal) -> None:
    """The table as CSV; a column says of how many points it is, and its share of the total."""
    heads = {
        name: f"{name} (of {found.of[name]:g}, {found.share(name):.3g} %)" for name in found.of
    }
    columns = ("student", "last_name", "first_name", *heads.values(), "total", "dropped", "missing")
    rows = [
        {
            "student": row.student, "last_name": row.last_name, "first_name": row.first_name,
            **{heads[name]: cell for name, cell in row.cells.items()},
            "total": "" if row.percent is None else round(row.percent, 2),
            "dropped": "; ".join(row.dropped), "missing": row.missing,
        }
        for row in found.rows
    ]  # fmt: skip
    write_csv(path, columns, rows)


def table(found: CourseTotal) -> Table:
    """The table for the terminal; what is dropped stands in parentheses."""
    grid = Table(title="The course so far", title_justify="left", header_style="bold")
    grid.add_column("student", no_wrap=True)
    for name, most in found.of.items():
        head = f"{name.partition('_')[0]}\nof {most:g}\n{found.share(name):.3g} %"
        grid.add_column(head, justify="right")
    grid.add_column("total\nof 100", justify="right", style="bold")
    for row in found.rows:
        cells = [_shown(cell, dropped=name in row.dropped) for name, cell in row.cells.items()]
        total = "-" if row.percent is None else f"{row.percent:.1f}"
        grid.add_row(Text(printable(row.student)), *cells, Text(total))
    return grid


def _shown(cell: float | str, *, dropped: bool) -> Text:
    if isinstance(cell, str):
        return Text(cell, style="dim")
    return Text(f"({cell:.4g})" if dropped else f"{cell:.4g}")
