"""Files for Moodle: a grade import, or its offline grading worksheet filled in.

The import (Grades, Import, CSV file) has a column by which people are known, the grade and the
feedback; Moodle asks which is which: map "Username", "ID number" or "Email address" to the user's
field, and both others to this assignment (docs.moodle.org, "Grade import"; a feedback that is
mapped alone erases grades, says note 3 there).

The worksheet (the assignment's "Download grading worksheet") is given as the roster. Moodle reads
Identifier, Grade, Last modified (grade) and Feedback comments of it, and takes no grade for a row
that was changed there since (``mod/assign/feedback/offline/importgradeslib.php`` of
moodle/moodle); the other columns stay as they are. Feedback is HTML there, so ours is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from autograder.course.assignment import Assignment
from autograder.gradebook.marks import ExportError, Mark
from autograder.platforms import roster as rosters
from autograder.platforms.roster import Roster

KEYS = ("Username", "ID number", "Email address")
FEEDBACK = "Feedback comments"


def write(
    path: Path,
    plan: Assignment,
    marks: Sequence[Mark],
    *,
    roster: Roster | None = None,
    column: str | None = None,
    raw: bool = False,
    leave_out: bool = False,
) -> int:
    """Write the file; gives how many students got a score.

    Raises:
        ExportError: the roster is neither a worksheet nor a list of people, or students are not
            in it.
    """
    if roster is not None and {"Identifier", "Grade"} <= set(roster.columns):
        return _worksheet(path, marks, roster, raw, leave_out)
    return _import(path, column or plan.title, marks, roster, raw, leave_out)


def _worksheet(
    path: Path, marks: Sequence[Mark], roster: Roster, raw: bool, leave_out: bool
) -> int:
    for name in ("Last modified (grade)", FEEDBACK):
        if name not in roster.columns:
            raise ExportError(
                f"{roster.path} has no column {name!r}: switch on feedback comments and the "
                "offline worksheet in the assignment's settings, and download it in English."
            )
    _check_maximum(roster, marks)
    by_row = roster.match(marks, (*KEYS, "Identifier"), leave_out=leave_out)
    table: list[dict[str, object]] = [dict(row) for row in roster.rows]
    count = 0
    for at, mark in by_row.items():
        value = mark.value(raw=raw)
        if value is not None:
            count += 1
            table[at] |= {"Grade": value, FEEDBACK: _as_html(mark.comment)}
    rosters.write(path, roster.columns, table)
    return count


def _check_maximum(roster: Roster, marks: Sequence[Mark]) -> None:
    """Moodle refuses grades above its own maximum, and wouldn't scale others."""
    for row in roster.rows:
        text = row.get("Maximum Grade", "").strip().replace(",", ".")
        if text and marks and abs(float(text) - marks[0].max_score) > 1e-6:
            raise ExportError(
                f"{roster.path}: the assignment's maximum grade is {text} in Moodle and "
                f"{marks[0].max_score:g} here: make them the same in its settings."
            )


def _import(
    path: Path, title: str, marks: Sequence[Mark], roster: Roster | None, raw: bool, leave_out: bool
) -> int:
    people = ["Username", "Email address"]
    rows: list[dict[str, object]] = [
        {"Username": mark.student, "Email address": mark.email} for mark in marks
    ]
    by_row = dict(enumerate(marks))
    if roster is not None:
        by_row = roster.match(marks, KEYS, leave_out=leave_out)
        people = [name for name in roster.columns if name in KEYS]
        rows = [{name: row[name] for name in people} for row in roster.rows]
    table = []
    for at, mark in sorted(by_row.items()):
        value = mark.value(raw=raw)
        if value is not None:
            table.append({**rows[at], title: value, "Feedback": _as_html(mark.comment)})
    rosters.write(path, [*people, title, "Feedback"], table)
    return len(table)


def _as_html(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
