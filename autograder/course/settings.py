"""``course.toml``: what this course decides, where the kit's assignments stay as they are.

``ringside.course.term`` reads the file and says what may stand in it.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from autograder.course.course import Course
from ringside.course.term import RUNS, Term, read

__all__ = ["RUNS", "assistants", "late", "released", "runs", "term", "waived"]


def term(course: Course, assignments: tuple[str, ...] | None = None) -> Term:
    """The course's file; one that isn't there says nothing.

    Args:
        assignments: the names that its tables may have; None: any.

    Raises:
        TableError: the file holds something else, or names no assignment.
    """
    try:
        status = course.settings.stat()
    except OSError:
        return Term(course.settings)
    return _read(course.settings, assignments, status.st_mtime_ns, status.st_size)


def released(course: Course, assignments: tuple[str, ...]) -> Mapping[str, datetime.datetime]:
    """When the course's assignments are released, by its own file; none: empty.

    Raises:
        TableError: the file holds something else, or names no assignment.
    """
    return term(course, assignments).released


def runs(course: Course) -> str:
    """Who vouches for a run.json in this course, one of RUNS; empty where it doesn't say.

    Raises:
        TableError: the file says something else.
    """
    return term(course).runs


def assistants(course: Course) -> str:
    """What AI assistants may do here, one of ``ringside.course.term.ASSISTANTS``, or empty.

    Raises:
        TableError: the file says something else.
    """
    return term(course).assistants


def late(course: Course) -> Mapping[str, float]:
    """The numbers of the late policy that the file sets, by the names of ``late.Policy``.

    Raises:
        TableError: the file says something else.
    """
    return term(course).late


def waived(course: Course, assignment: str) -> Mapping[str, Mapping[str, str]]:
    """The tests of an assignment that the course waived: module -> test -> the reason.

    Raises:
        TableError: the file says something else.
    """
    return term(course).waived.get(assignment, {})


@functools.lru_cache(maxsize=16)
def _read(path: Path, assignments: tuple[str, ...] | None, _modified: int, _size: int) -> Term:
    course_term = read(path, assignments)
    return dataclasses.replace(  # what a caller gets is everybody's: read only
        course_term,
        released=MappingProxyType(course_term.released),
        due=MappingProxyType(course_term.due),
        weights=MappingProxyType(course_term.weights),
        late=MappingProxyType(course_term.late),
        waived=MappingProxyType(course_term.waived),
    )
