"""Who has more time for all assignments: ``build/accommodations.csv`` (student, factor, note).

    factor 1.5: the time from an assignment's release to its due date becomes half as long again

    released                due            due for this student
    |-----------------------|--------------|
    |         10 days       |    5 days    |     and an extension comes on top

The release date stands in ``course.toml`` below ``[released]``. The list is private: nothing that
is written for students or for a platform holds a factor or a note.
"""

from __future__ import annotations

import math
import stat

from autograder import tables
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError

__all__ = ["factors", "open_to_others"]

MOST = 10.0


def factors(course: Course) -> dict[str, float]:
    """Each student's factor.

    Raises:
        AssignmentError: a line is not `student,factor`; it is named.
    """
    path = course.accommodations
    by_student: dict[str, float] = {}
    if not path.is_file():
        return by_student
    try:
        for line, row in tables.rows(path, ("student", "factor"), also=("note",)):
            student = row["student"]
            try:
                factor = float(row["factor"])
            except ValueError:
                factor = math.nan
            if not student or not 1 <= factor <= MOST:
                raise TableError(
                    f"{path}, line {line}: {row['factor']!r} is no factor from 1 to {MOST:g}, like "
                    "1.5, or the student is missing."
                )
            if student in by_student:
                raise TableError(f"{path}, line {line}: {student} is there twice: keep one line.")
            by_student[student] = factor
    except TableError as error:
        raise AssignmentError(str(error)) from None
    return by_student


def open_to_others(course: Course) -> str:
    """What to say where other accounts can read the list; else nothing."""
    path = course.accommodations
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return ""
    if not mode & 0o077:
        return ""
    return (
        f"{path} says who has more time, and its rights are {mode:o}: `chmod 600 {path}` keeps it "
        "to you."
    )
