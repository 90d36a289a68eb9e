"""``course.toml``: what this course decides, where the kit's assignments stay as they are.

runs = "by hand"                         # who vouches for a run.json: `submission.vouching`
[due]
a03_allreduce = 2026-03-01T23:59:00Z     # before the date in the kit's assignment.toml
[released]
a03_allreduce = 2026-02-15T09:00:00Z     # from when the time of `accommodations.csv` counts
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from autograder import tables
from autograder.course.course import Course
from autograder.tables import TableError

__all__ = ["RUNS", "due", "released", "runs"]

RUNS = ("accounting", "word", "by hand")  # what `runs` may be


def due(course: Course, assignments: tuple[str, ...]) -> Mapping[str, datetime.datetime]:
    """When the course's assignments are due, by its own file; nothing where there is none.

    Raises:
        TableError: the file holds something else, or names no assignment.
    """
    try:
        status = course.settings.stat()
    except OSError:
        return {}
    return _read(course.settings, assignments, status.st_mtime_ns, status.st_size)


def released(course: Course, assignments: tuple[str, ...]) -> Mapping[str, datetime.datetime]:
    """When the course's assignments were handed out, by its own file; nothing where it says none.

    Raises:
        TableError: the file holds something else, or names no assignment.
    """
    try:
        status = course.settings.stat()
    except OSError:
        return {}
    return _read(course.settings, assignments, status.st_mtime_ns, status.st_size, "released")


def runs(course: Course) -> str:
    """Who vouches for a run.json in this course, one of RUNS; empty where it doesn't say.

    Raises:
        TableError: the file says something else.
    """
    try:
        status = course.settings.stat()
    except OSError:
        return ""
    return _rule(course.settings, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _rule(path: Path, _modified: int, _size: int) -> str:
    rule = tables.read(path).get("runs", "")
    if rule and rule not in RUNS:
        wanted = ", ".join(f'"{each}"' for each in RUNS)
        raise TableError(f"{path}{tables.line_of(path, 'runs')}: runs = {rule!r}: one of {wanted}.")
    return str(rule)


@functools.lru_cache(maxsize=16)
def _read(
    path: Path, assignments: tuple[str, ...], _modified: int, _size: int, which: str = "due"
) -> Mapping[str, datetime.datetime]:
    table = tables.read(path)
    dates = table.get(which, {})
    of_assignments = dict.fromkeys(assignments, datetime.datetime)
    for where, part, kinds in (
        ("", table, {"due": dict, "released": dict, "runs": str}),
        (f"[{which}]", dates, of_assignments),
    ):
        try:
            tables.check(part, kinds, where, above=("runs",) if where else ())
        except TableError as error:
            stray = next((key for key in part if f"{key} = " in str(error)), "")
            raise TableError(f"{path}{tables.line_of(path, stray)}: {error}") from None
    return MappingProxyType({name: tables.moment(value) for name, value in dates.items()})
