"""The paths through the course: what is taught in each week, and which modules are written.

    paths.toml   ->   lectures/paths.md, the first page, and ``path = "8 weeks"`` in course.toml

In a course that takes a path, the path's modules make up each assignment's total; what else the
assignment has is extra. Students get the path's assignments, where the term lists no others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ringside import toml_tables

__all__ = ["MEETING", "CoursePath", "Week", "course_paths"]

MEETING = re.compile(r"(\d\d)\.(\d)")  # of a unit


@dataclass(frozen=True)
class Week:
    """What is taught in class, and what is written at home: module names by assignment."""

    meetings: tuple[str, ...]
    work: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class CoursePath:
    """A way through the course; the lectures of ``reading`` are read without being taught."""

    name: str
    weeks: tuple[Week, ...]
    reading: tuple[str, ...]

    @property
    def work(self) -> dict[str, tuple[str, ...]]:
        """The modules that are written, by assignment."""
        return {name: modules for week in self.weeks for name, modules in week.work.items()}

    @property
    def taught(self) -> list[tuple[str, int]]:
        """The meetings of units, as unit and number, in their order."""
        words = " ".join(one for week in self.weeks for one in week.meetings)
        return [(unit, int(number)) for unit, number in MEETING.findall(words)]

    @property
    def num_meetings(self) -> int:
        return sum(len(week.meetings) for week in self.weeks)


@cache
def course_paths() -> Mapping[str, CoursePath]:
    """The paths by their names."""
    table = toml_tables.read(Path(__file__).with_suffix(".toml"))
    return {
        name: CoursePath(
            name,
            tuple(
                Week(
                    tuple(week["meetings"]),
                    {one: tuple(modules) for one, modules in week["work"].items()},
                )
                for week in path["weeks"]
            ),
            tuple(path["reading"]),
        )
        for name, path in table.items()
    }
