"""The gradebook, nbgrader's database: whether it can be used, its dates and its students."""

from __future__ import annotations

import datetime
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbgrader.api
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.utils import parse_utc

from autograder.course.assignment import Assignment
from autograder.course.course import SETTINGS, Course
from ringside.errors import RingsideError

LOCK_PATIENCE_S = 5.0  # formgrader and nbgrader hold the gradebook for moments only
ROOM_BYTES = 1 << 20
_TABLES = {"assignment", "student", "submitted_assignment", "submitted_notebook", "grade"}


class GradebookError(RingsideError):
    """nbgrader refused, and the message is its own; or the gradebook can't be used."""


def check(course: Course, *, write: bool) -> None:
    """Look whether the gradebook can be read, or written; a new course has none, which is fine.

    Raises:
        GradebookError: it is no gradebook, or locked, or can't be written.
    """
    path = course.database
    if path.exists() and not os.access(path, os.R_OK | (os.W_OK if write else 0)):
        raise refused(path, "unable to open it" if not write else "it is readonly")
    if write and path.parent.is_dir():
        room = os.statvfs(path.parent)
        if room.f_bavail * room.f_frsize < ROOM_BYTES:
            raise refused(path, "No room is left on the disk")
    if not path.is_file():
        if course.any_graded:
            raise refused(path, "it is gone, and grades were written into it")
        return
    try:
        book = sqlite3.connect(path, timeout=LOCK_PATIENCE_S, isolation_level=None)
        try:
            # IMMEDIATE takes a writer's lock: others' locks are met here, and not half-way.
            book.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            tables = {str(row[0]) for row in book.execute("SELECT name FROM sqlite_master")}
            missing = sorted(_TABLES - tables)
            used = any(book.execute(f'SELECT 1 FROM "{t}" LIMIT 1').fetchall()
                       for t in sorted(_TABLES & tables))  # fmt: skip
            book.execute("ROLLBACK")
        finally:
            book.close()
    except sqlite3.Error as error:
        raise refused(path, str(error)) from error
    # Tables that are missing from an empty one are those of a start that was interrupted.
    if missing and (used or course.any_graded):
        raise refused(path, f"it has no table {', '.join(missing)}")


def refused(path: Path | str, why: str) -> GradebookError:
    """A fault of the gradebook: the file, the cause, the cure."""
    again = "then start the command again: what was graded is kept."
    if "locked" in why:
        cure = "Another program holds it: let `nbgrader` or formgrader end, or end it"
    elif "room" in why or "full" in why:
        cure = "Free some room there"
    elif "readonly" in why or "unable to open" in why:
        cure = "Make it writable for this account"
    else:
        cure = "Put back a copy of it, or move it away and run `autograder build`"
    return GradebookError(f"{path} can't be used: {why}. {cure}, {again}")


def _schema_version() -> str:
    """The version of its tables that nbgrader writes into a new gradebook."""
    from alembic.script import ScriptDirectory  # a quarter of a second, for a new gradebook alone

    folder = Path(nbgrader.api.__file__).parent / "alembic"
    return str(ScriptDirectory(str(folder)).get_current_head())


# nbgrader starts a process of alembic for it, found on PATH, and that takes seconds.
nbgrader.api.get_alembic_version = _schema_version


@contextmanager
def open_gradebook(course: Course) -> Iterator[Any]:
    """The course's gradebook, opened and closed.

    Raises:
        GradebookError: it is no gradebook, or locked, or can't be written.
    """
    check(course, write=False)
    try:
        with Gradebook(f"sqlite:///{course.database}", "ringside") as book:
            yield book
    except Exception as error:
        cause = getattr(error, "orig", None)  # SQLAlchemy's errors wrap those of SQLite
        if not isinstance(cause, sqlite3.Error):
            raise
        raise refused(course.database, str(cause)) from error


def _recorded_due(course: Course, assignment: str) -> datetime.datetime | None:
    if not course.database.is_file():
        return None
    with open_gradebook(course) as book:
        try:
            due: datetime.datetime | None = book.find_assignment(assignment).duedate
        except MissingEntry:
            return None
    return due


def other_due(course: Course, plan: Assignment) -> str:
    """What to say where the gradebook has another due date than the assignment, else nothing."""
    recorded = _recorded_due(course, plan.name)
    due = plan.due_utc
    if due is None or recorded is None or due == recorded:
        return ""
    return (
        f"{plan.name} is due {recorded} UTC by the gradebook, which goes first; {SETTINGS} or its "
        f"assignment.toml says {due} UTC. To take that: "
        f'nbgrader db assignment add {plan.name} --duedate "{due} UTC"'
    )


def set_due(course: Course, assignment: str, due: datetime.datetime) -> None:
    """Write the due date into the gradebook, where nbgrader and its formgrader keep it."""
    with open_gradebook(course) as book:
        book.update_or_create_assignment(assignment, duedate=parse_utc(due.isoformat()))


def name_students(course: Course, names: Mapping[str, tuple[str, str]]) -> None:
    """Write each student's first and last name into the gradebook."""
    with open_gradebook(course) as book:
        for student, (first, last) in names.items():
            book.update_or_create_student(student, first_name=first, last_name=last)
