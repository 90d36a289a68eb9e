"""Who works with whom: ``build/teams/<assignment>.csv``, columns ``team`` and ``student``.

    team,student
    red,ada
    red,bob

A team hands in once, and each member has the grade. What Gradescope says of its groups stands in
``build/teams/platform/<assignment>.csv``: whoever is in the first file is in that team alone.
"""

from __future__ import annotations

import csv
import functools
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from autograder import storage, tables
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.tables import TableError

__all__ = ["Team", "lines", "of_students", "read", "record_platform", "with_partners"]

COLUMNS = ("team", "student")


@dataclass(frozen=True)
class Team:
    """Students with one submission; `members` are in the order of the file."""

    name: str
    members: tuple[str, ...]


def read(course: Course, assignment: str) -> dict[str, Team]:
    """The teams of an assignment by name; none where nobody has written any.

    Raises:
        AssignmentError: a file has other columns, an empty cell, or a student twice.
    """
    course_teams = _of_file(course.teams(assignment))
    taken = {student for team in course_teams.values() for student in team.members}
    teams = dict(course_teams)
    for name, team in _of_file(course.platform_teams(assignment)).items():
        members = tuple(member for member in team.members if member not in taken)
        if name not in teams and len(members) > 1:
            teams[name] = Team(name, members)
    return teams


def of_students(course: Course, assignment: str) -> dict[str, Team]:
    """Each student's team.

    Raises:
        AssignmentError: as `read`.
    """
    teams = read(course, assignment).values()
    return {student: team for team in teams for student in team.members}


def with_partners(course: Course, assignment: str, students: Iterable[str]) -> set[str]:
    """The students, and those in a team with one of them.

    Raises:
        AssignmentError: as `read`.
    """
    by_student = of_students(course, assignment)
    return {
        member
        for student in students
        for member in (by_student[student].members if student in by_student else (student,))
    }


def lines(path: Path) -> dict[str, int]:
    """Each student of a file, and the line.

    Raises:
        AssignmentError: as `read`.
    """
    _of_file(path)
    return {row["student"]: line for line, row in _rows(path)}


def record_platform(course: Course, assignment: str, groups: Mapping[str, Iterable[str]]) -> None:
    """Write down what a platform says of groups, in the place of what it said before."""
    path = course.platform_teams(assignment)
    if not groups and not path.exists():
        return
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    writer.writerows([name, student] for name, members in groups.items() for student in members)
    storage.write(path, stream.getvalue().encode(), mode=0o600)


def _of_file(path: Path) -> Mapping[str, Team]:
    """The teams of a file, which is read again when it is another one."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return {}
    return _kept(path, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))


@functools.lru_cache(maxsize=64)  # assignments
def _kept(path: Path, state: tuple[int, ...]) -> Mapping[str, Team]:
    """The teams of a file in one state; `state` is what tells it from the next."""
    members: dict[str, list[str]] = {}
    at: dict[str, tuple[str, int]] = {}
    for line, row in _rows(path):
        team, student = row["team"], row["student"]
        if not (team and student):
            lacks = "student" if team else "team"
            raise AssignmentError(f"{path}, line {line}: the {lacks} is missing.")
        if student in at:
            other, before = at[student]
            where = f"team {other} by line {before}"
            again = "once more" if other == team else f"and in team {team}"
            raise AssignmentError(
                f"{path}, line {line}: {student} is in {where}, {again} by this one: keep one of "
                "the lines."
            )
        at[student] = (team, line)
        members.setdefault(team, []).append(student)
    return MappingProxyType(
        {name: Team(name, tuple(students)) for name, students in members.items()}
    )


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        return list(tables.rows(path, COLUMNS, also=("note",))) if path.is_file() else []
    except TableError as error:
        raise AssignmentError(str(error)) from None
