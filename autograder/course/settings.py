"""``course.toml``: what this course decides, where the kit's assignments stay as they are.

[due]
a03_allreduce = 2026-03-01T23:59:00Z     # before the date in the kit's assignment.toml
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

__all__ = ["due"]


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


@functools.lru_cache(maxsize=16)
def _read(
    path: Path, assignments: tuple[str, ...], _modified: int, _size: int
) -> Mapping[str, datetime.datetime]:
    table = tables.read(path)
    dates = table.get("due", {})
    for where, part, kinds in (
        ("", table, {"due": dict}),
        ("[due]", dates, dict.fromkeys(assignments, datetime.datetime)),
    ):
        try:
            tables.check(part, kinds, where)
        except TableError as error:
            stray = next((key for key in part if f"{key} = " in str(error)), "")
            raise TableError(f"{path}{tables.line_of(path, stray)}: {error}") from None
    return MappingProxyType({name: tables.moment(value) for name, value in dates.items()})
