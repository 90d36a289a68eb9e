"""The course as it stands in a tree: its units, what each needs, its hours, its meetings.

    lectures/NN_name.py, assignments/aNN_name/aNN_name.ipynb   ->  units  ->  map, paths

Only what is there is shown: a unit without a lecture and an assignment is left out, and so is an
arrow to it. What a unit says of itself stands in it (`ringside.course.unit_facts`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

from ringside.course import unit_facts
from ringside.course.lectures.meetings import minutes_in
from ringside.course.unit_facts import UnitFacts
from ringside.toml_tables import TableError

WORDS_PER_MINUTE = 120  # of a text with formulas, in a foreign language
MINUTES_PER_CELL = 0.75  # to read a cell of code, run it and look at what comes


@dataclass(frozen=True)
class Unit:
    """A lecture, an assignment, or both, with one number.

    Its facts name only units that are shown as those that it comes after.
    """

    number: str
    lecture: Path | None
    assignment: Path | None
    facts: UnitFacts = field(default_factory=UnitFacts)

    @property
    def name(self) -> str:
        """What stands in its box."""
        path = self.lecture or self.assignment
        assert path is not None
        of_file = path.stem.removeprefix("a").removeprefix(f"{self.number}_").replace("_", " ")
        return self.facts.name or of_file

    @property
    def heading(self) -> str:
        """Of its lecture, without "Lecture 3:"; its name where there is none."""
        text = self.lecture.read_text(encoding="utf-8") if self.lecture else ""
        heading = re.search(r"(?m)^# # (?:Lecture \d+: )?(.+)$", text)
        return heading[1] if heading else self.name

    @property
    def meetings(self) -> dict[int, int]:
        """The minutes that are planned for each meeting of its lecture."""
        return minutes_in(self.lecture.read_text(encoding="utf-8")) if self.lecture else {}

    @property
    def lecture_hours(self) -> float:
        """Hours to read the lecture and to run its cells, in quarters."""
        if self.lecture is None:
            return 0.0
        cells = self.lecture.read_text(encoding="utf-8").split("\n# %%")[1:]
        prose = [one for one in cells if one.startswith(" [markdown]")]
        code_cells = [
            one for one in cells if one not in prose and "hide-input" not in one.split("\n")[0]
        ]
        num_words = sum(len(one.split()) for one in prose)
        minutes = num_words / WORDS_PER_MINUTE + MINUTES_PER_CELL * len(code_cells)
        return max(0.25, math.ceil(minutes / 15) / 4)

    @property
    def assignment_hours(self) -> float:
        """Hours of the assignment's core modules, as its notebook states them.

        Raises:
            ValueError: the notebook is of a build that didn't state them.
        """
        if self.assignment is None:
            return 0.0
        if not isinstance(hours := self.facts.hours, Mapping):
            name = self.assignment.stem
            raise ValueError(
                f"{self.assignment} doesn't say its hours: `autograder build {name}` writes them."
            )
        return sum(hours[name] for name in self.facts.core)

    @property
    def hours(self) -> float:
        return self.lecture_hours + self.assignment_hours


def units(tree: Path, assignments: Collection[str] | None = None) -> list[Unit]:
    """Return what stands in a tree, in order.

    Args:
        assignments: the names of those that are shown; None: all.

    Raises:
        TableError: the facts of a unit hold something else, or stand in two places.
    """
    lectures = {path.name[:2]: path for path in tree.glob("lectures/[0-9][0-9]_*.py")}
    tasks = {
        path.name[1:3]: path for path in sorted(tree.glob("assignments/a[0-9][0-9]_*/a*.ipynb"))
    }
    whole = [
        Unit(
            number,
            lectures.get(number),
            tasks.get(number),
            _facts(lectures.get(number), tasks.get(number)),
        )
        for number in sorted(lectures.keys() | tasks.keys())
    ]
    if assignments is None:
        return among(whole, {unit.number for unit in whole})
    listed = [
        unit
        if unit.assignment is None or unit.assignment.stem in assignments
        else replace(unit, assignment=None)
        for unit in whole
    ]
    return among(listed, {unit.number for unit in listed if unit.lecture or unit.assignment})


def among(there: Sequence[Unit], numbers: Collection[str]) -> list[Unit]:
    """Return the units with these numbers, each after those of them that it builds upon.

    Where a unit that another one builds upon isn't among them, those that it builds upon stand in
    for it.
    """
    facts = {unit.number: unit.facts for unit in there}
    return [
        replace(unit, facts=replace(unit.facts, after=_before(unit.number, facts, numbers)))
        for unit in there
        if unit.number in numbers
    ]


def _facts(lecture: Path | None, assignment: Path | None) -> UnitFacts:
    """What a unit says of itself: its assignment, else the file beside its lecture."""
    beside = unit_facts.of_lecture(lecture) if lecture else None
    if assignment is None:
        return beside or UnitFacts()
    if lecture and beside:
        raise TableError(
            f"{lecture.with_suffix('.toml')}: the unit has an assignment, {assignment.stem}: write "
            "its facts into [unit] of the assignment.toml, and remove this file."
        )
    return unit_facts.of_notebook(assignment)


def _before(
    number: str, facts: Mapping[str, UnitFacts], numbers: Collection[str]
) -> tuple[str, ...]:
    """Those of `numbers` that a unit builds upon, directly or by way of others."""
    direct: set[str] = set()
    waiting = list(facts[number].after)
    while waiting:
        other = waiting.pop()
        if other in numbers:
            direct.add(other)
        elif other in facts:
            waiting += facts[other].after
    return tuple(sorted(direct))


# The map: a box for each unit, as low as its longest chain of prerequisites

WIDTH, BOX, HIGH, PITCH = 480, 108, 50, 86
COLUMNS = 4
Place = tuple[float, float]


def levels(there: Sequence[Unit]) -> dict[str, int]:
    """Return the length of the longest chain of units that come before each unit."""
    depths: dict[str, int] = {}
    for unit in there:
        # Units are in order and build on lower numbers only (`unit_facts.parse`): the depths are
        # there.
        depths[unit.number] = 1 + max((depths[one] for one in unit.facts.after), default=-1)
    return depths


def places(there: Sequence[Unit]) -> dict[str, Place]:
    """Return where each box begins, at its upper left corner; no two boxes overlap."""
    corners: dict[str, Place] = {}
    taken: set[tuple[int, float]] = set()
    columns = {unit.number: unit.facts.column for unit in there}
    for number, level in levels(there).items():
        column = columns[number]
        while any(row == level and abs(other - column) < 1 for row, other in taken):
            column = 0 if column >= COLUMNS - 1 else math.floor(column) + 1
            if all(
                any(row == level and abs(other - free) < 1 for row, other in taken)
                for free in range(COLUMNS)
            ):
                level, column = level + 1, 0
        taken.add((level, column))
        corners[number] = (
            column * WIDTH / COLUMNS + (WIDTH / COLUMNS - BOX) / 2,
            6.0 + level * PITCH,
        )
    return corners


def drawn(there: Sequence[Unit], links: Mapping[str, str]) -> str:
    """Return the map as SVG, whose colours are those of the page.

    Args:
        links: where a click on a unit's box leads, by the unit's number.
    """
    at = places(there)
    high = max((y for _, y in at.values()), default=0) + HIGH + 6
    description = "; ".join(
        f"{unit.number} {unit.name} after {', '.join(unit.facts.after) or 'nothing'}"
        for unit in there
    )
    parts = [
        f'<svg class="course-map" viewBox="0 0 {WIDTH} {high:g}" role="img" '
        f'aria-label="Map of the units. {escape(description)}.">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    for unit in there:
        for one in unit.facts.after:
            (x1, y1), (x2, y2) = at[one], at[unit.number]
            x1, x2, y1, y2 = x1 + BOX / 2, x2 + BOX / 2, y1 + HIGH, y2 - 2
            bend = (y2 - y1) * 0.5
            parts.append(
                f'<path class="arrow" marker-end="url(#tip)" d="M{x1:g} {y1:g}'
                f'C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"/>'
            )
    for unit in there:
        x, y = at[unit.number]
        parts.append(
            f'<a href="{escape(links[unit.number])}"><rect class="box" x="{x:g}" y="{y:g}" '
            f'width="{BOX}" height="{HIGH}" rx="7"/>'
            f'<text class="name" x="{x + BOX / 2:g}" y="{y + 21:g}">{escape(unit.name)}</text>'
            f'<text class="hours" x="{x + BOX / 2:g}" y="{y + 39:g}">'
            f"{unit.number} · {unit.hours:g} h</text></a>"
        )
    return "".join([*parts, "</svg>"])


def unit_rows(there: Sequence[Unit]) -> Iterator[str]:
    """Yield the table of units as the README has it: links from the tree's root."""
    yield from ("| unit | lecture | assignment |", "|---|---|---|")
    for unit in there:
        lecture, task = unit.lecture, unit.assignment
        link = f"[{unit.heading}](lectures/{lecture.stem}.ipynb)" if lecture else "none"
        folder = f"[`{task.stem}`](assignments/{task.stem})" if task else "none"
        yield f"| {unit.number} | {link} | {folder} |"
