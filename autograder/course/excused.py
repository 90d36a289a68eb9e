"""Who need not do an assignment: ``build/excused.csv`` (student, assignment, note).

It counts neither for nor against them: no score, no zero, no grace day spent.
"""

from __future__ import annotations

from autograder import tables
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError

__all__ = ["of_assignment", "read"]


def read(course: Course) -> dict[tuple[str, str], int]:
    """(student, assignment) -> the line that says so.

    Raises:
        AssignmentError: a line is not `student,assignment`, or names no assignment.
    """
    path = course.excused
    lines: dict[tuple[str, str], int] = {}
    if not path.is_file():
        return lines
    names = plans.known(course)
    try:
        for line, row in tables.rows(path, ("student", "assignment"), also=("note",)):
            student, name = row["student"], row["assignment"]
            if not student:
                raise TableError(f"{path}, line {line}: the student is missing.")
            if name not in names:
                raise TableError(
                    f"{path}, line {line}: {name!r} is no assignment; {tables.meant(name, names)}"
                )
            if (student, name) in lines:
                raise TableError(
                    f"{path}, line {line}: {student} is excused from {name} by line "
                    f"{lines[student, name]} already: keep one of them."
                )
            lines[student, name] = line
    except TableError as error:
        raise AssignmentError(str(error)) from None
    return lines


def of_assignment(course: Course, assignment: str) -> frozenset[str]:
    """The students who need not do an assignment.

    Raises:
        AssignmentError: as `read`.
    """
    return frozenset(student for student, name in read(course) if name == assignment)
