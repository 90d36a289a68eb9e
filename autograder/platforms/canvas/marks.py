"""A file for Canvas' gradebook: "Import" reads what "Export" writes, one assignment a column.

    Student               ID    SIS User ID  SIS Login ID  Section  All-reduce (4711)
        Points Possible                                             100
    Adeyemi, Ada          1023  u77          ada           1        97.5

Canvas knows a student by ID, then SIS User ID, SIS Login ID and name, and an assignment by the
number in parentheses, then by its title; a title that it doesn't know becomes a new assignment
(``lib/gradebook_importer.rb`` of instructure/canvas-lms; Canvas Instructor Guide, "How do I import
grades in the Gradebook?"). So give it its own export as the roster, and ids match. An empty cell
leaves the grade there as it is. Only this assignment's column is written: nothing else changes.
Canvas would take a column of comments for an assignment, so what people wrote is a file beside.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from autograder.course.assignment import Assignment
from autograder.gradebook.marks import ExportError, Mark
from autograder.platforms import roster as rosters
from autograder.platforms.roster import Roster

PERSON = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
KEYS = ("SIS Login ID", "SIS User ID", "ID")
POINTS = "    Points Possible"
EXCUSED = "EX"  # as Canvas' own importer reads it


def write(
    path: Path,
    plan: Assignment,
    marks: Sequence[Mark],
    *,
    roster: Roster | None = None,
    column: str | None = None,
    new_column: bool = False,
    raw: bool = False,
    leave_out: bool = False,
) -> int:
    """Write the file; gives how many students got a score.

    Args:
        new_column: the assignment may be one that the roster doesn't have.

    Raises:
        ExportError: the roster is no Canvas export, students are not in it, or the assignment's
            column isn't.
    """
    most = marks[0].max_score if marks else plan.max_score
    title = column or plan.title
    if roster is None:
        people = list(PERSON)
        rows = [_row(mark) for mark in marks]
        by_row = dict(enumerate(marks))
    else:
        if not {"Student", "ID", "Section"} <= set(roster.columns):
            raise ExportError(
                f"{roster.path} is no export of Canvas' gradebook: it has no columns Student, ID "
                "and Section."
            )
        title = _column(roster, plan, column, new_column)
        people = [name for name in roster.columns if name in PERSON]
        roster.rows = [row for row in roster.rows if _is_student(row)]
        rows = [{name: row[name] for name in people} for row in roster.rows]
        by_row = roster.match(marks, KEYS, leave_out=leave_out)
    table: list[dict[str, object]] = [{"Student": POINTS, title: most}]
    count = 0
    for at, row in enumerate(rows):
        value = by_row[at].value(raw=raw) if at in by_row else None
        count += value is not None
        none = EXCUSED if at in by_row and by_row[at].excused else ""
        table.append({**row, title: none if value is None else value})
    rosters.write(path, [*people, title], table)
    return count


def _row(mark: Mark) -> dict[str, str]:
    name = ", ".join(filter(None, [mark.last_name, mark.first_name]))
    return {"Student": name or mark.student, "SIS Login ID": mark.student}


def _is_student(row: dict[str, str]) -> bool:
    name = row["Student"].strip()
    return bool(name) and "Points Possible" not in name


def comments_beside(path: Path) -> Path:
    """Where the comments go that a Canvas import can't hold."""
    return path.with_name(f"{path.stem}.comments.csv")


def write_comments(path: Path, marks: Sequence[Mark]) -> bool:
    """What people wrote, beside the export; says whether there is any."""
    table: list[dict[str, object]] = [
        {"SIS Login ID": mark.student, "by hand": mark.by_hand, "comment": mark.hand_comment}
        for mark in marks
        if mark.hand_comment
    ]
    if table:
        rosters.write(comments_beside(path), ["SIS Login ID", "by hand", "comment"], table)
    return bool(table)


def other_maximum(roster: Roster, plan: Assignment, column: str | None, most: float) -> str:
    """What to say where Canvas has other points possible for the column; else nothing."""
    title = _column(roster, plan, column, new=True)
    for row in roster.rows:
        text = row.get(title, "").strip()
        if "Points Possible" in row.get("Student", "") and text.replace(".", "", 1).isdigit():
            there = float(text)
            if abs(there - most) > 1e-6:
                return (
                    f"{title} is of {there:g} points in Canvas, and scores here are of {most:g}: "
                    "change it there."
                )
    return ""


def _column(roster: Roster, plan: Assignment, column: str | None, new: bool) -> str:
    """The column of the export that is this assignment: "Title (number)"."""
    titles = {column} if column else {plan.title, plan.name}
    columns = [
        name
        for name in roster.columns
        if name in titles or re.sub(r"\s*\(\d+\)$", "", name) in titles
    ]
    if len(columns) > 1:
        raise ExportError(f"{roster.path}: choose by --column one of {', '.join(columns)}.")
    title = column or plan.title
    if not columns and not new:
        raise ExportError(
            f"{roster.path} has no column {title!r}, and Canvas would make a new assignment of "
            f"it. {_near(roster, title)}Choose one by --column, or say --new-column."
        )
    return columns[0] if columns else title


def _near(roster: Roster, title: str) -> str:
    """The columns of assignments that are most like `title`."""
    there = [name for name in roster.columns if re.search(r"\(\d+\)$", name)]
    near = difflib.get_close_matches(title, there, n=3, cutoff=0.4) or there[:3]
    return f"Nearest to it: {', '.join(near)}. " if near else "It has no assignment at all. "
