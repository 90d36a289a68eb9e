"""What a module is asked for, in the words of its docstring, and what each of it is worth.

``checks/requirements.toml`` of an assignment, for students to read as well::

    [ring]
    the_point = "own_messages"  # the requirement without which the scheme isn't there
    without_it = 20             # what a module earns at most without it, of 100
    points = [
        ["sum", 40, "All ranks get the sum, for any length on any number of ranks."],
        ["own_messages", 20, "Messages to neighbours carry the data, no library collective."],
        ["waits", 15, "No rank depends on buffers.", 70],  # without it at most 70 of 100
        ...
    ]
    hints = ["...", "..."]      # at most three, for who is stuck (`ringside hint ring`)

Tests name the requirement that they show, and share its points by their weights. So a requirement
earns what the share of its cases earns, in public and in the hidden run alike. Ten kinds of
mistakes that each deserve to cost 40 points don't fit into 100: where a requirement's points say
too little of what a program without it is worth, a limit says it. Half of the requirement lifts the
limit half of the way.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ringside.errors import RingsideError

FILE = "requirements.toml"
ALL_POINTS = 100.0  # of a module
MOST_HINTS = 3
WITHOUT_IT = (10, 50)  # what may be left without the point of the exercise


class RequirementsError(RingsideError):
    """An assignment's requirements can't be read, or don't fit its tests."""


class Shown(Protocol):
    """A test's record, public or hidden."""

    @property
    def requirement(self) -> str: ...
    @property
    def points(self) -> float: ...
    @property
    def earned(self) -> float: ...
    @property
    def message(self) -> str: ...


@dataclass(frozen=True)
class Requirement:
    """What a module must do, as its docstring says it.

    Attributes:
        limit: what a module earns at most where nothing of it is shown; None: its points say it.
    """

    name: str
    points: float
    says: str
    limit: float | None = None


@dataclass(frozen=True)
class Requirements:
    """All that a module is asked for.

    Attributes:
        the_point: the requirement without which the scheme isn't there.
        without_it: what the module earns at most where nothing of that is shown.
        hints: for who is stuck, in the order in which they help.
    """

    the_point: str
    without_it: float
    each: tuple[Requirement, ...]
    hints: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Requirements:
        """What ``dataclasses.asdict`` made of them."""
        each = tuple(Requirement(**one) for one in content["each"])
        return cls(content["the_point"], content["without_it"], each, tuple(content["hints"]))

    def least(self, tests: Sequence[Shown]) -> tuple[float, Requirement]:
        """The lowest limit by what is shown of each requirement, and whose it is."""
        return min(((self._most(one, tests), one) for one in self.each), key=lambda pair: pair[0])

    def limit(self, requirement: Requirement) -> float:
        """What a module earns at most that shows nothing of a requirement."""
        if requirement.name == self.the_point:
            return self.without_it
        return ALL_POINTS if requirement.limit is None else requirement.limit

    def weighs(self, requirement: Requirement) -> str:
        """What a reader is told of a requirement that counts for more than its points."""
        if (limit := self.limit(requirement)) == ALL_POINTS:
            return ""
        the_point = "the point of the exercise: " if requirement.name == self.the_point else ""
        return f"{the_point}without it at most {limit:g} of {ALL_POINTS:g}"

    def _most(self, requirement: Requirement, tests: Sequence[Shown]) -> float:
        # Of a call that wasn't made nothing is known.
        run = [test for test in tests if not test.message.startswith("not run")]
        earned, points = earned_by(requirement, run)
        limit = self.limit(requirement)
        return limit + earned / points * (ALL_POINTS - limit) if points else ALL_POINTS


def earned_by(requirement: Requirement, tests: Sequence[Shown]) -> tuple[float, float]:
    """What the tests of a requirement earned, and of how many points."""
    mine = [test for test in tests if test.requirement == requirement.name]
    return sum(test.earned for test in mine), sum(test.points for test in mine)


def score(requirements: Requirements | None, tests: Sequence[Shown]) -> float:
    """What a module's tests earned, of 100 points."""
    earned = sum((test.earned for test in tests), 0.0)
    most = requirements.least(tests)[0] if requirements else ALL_POINTS
    return round(min(earned, most), 4)


def held_back(requirements: Requirements | None, tests: Sequence[Shown]) -> str:
    """A sentence where a module earns less than its requirements, since one weighs more."""
    earned = sum(test.earned for test in tests)
    if requirements is None:
        return ""
    most, by = requirements.least(tests)
    if earned <= most + 1e-9:
        return ""
    is_the_point = by.name == requirements.the_point
    lacks = "the point of the exercise" if is_the_point else "what weighs more than its points"
    return (
        f"{round(earned, 1):g} points, of which {round(most, 1):g} count: {lacks} is missing or "
        f"incomplete. {by.says}"
    )


def read(path: Path) -> dict[str, Requirements]:
    """The requirements of each module of an assignment.

    Raises:
        RequirementsError: there is no such file, or a module's table is wrong; both are named.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RequirementsError(f"{path} is missing: it says what each test is worth.") from None
    except (OSError, ValueError) as error:
        raise RequirementsError(f"{path} can't be read: {error}") from None
    return {module: _of_module(path, module, table) for module, table in content.items()}


def _of_module(path: Path, module: str, table: Any) -> Requirements:
    def refuse(what: str) -> RequirementsError:
        return RequirementsError(f"{path}, [{module}]: {what}")

    try:
        found = Requirements(
            table["the_point"],
            table["without_it"],
            tuple(Requirement(*row) for row in table["points"]),
            tuple(table.get("hints", ())),
        )
        total = sum(each.points for each in found.each)
    except (KeyError, TypeError) as error:
        raise refuse(f"{error}; it has the_point, without_it and points.") from None
    names = [each.name for each in found.each]
    for each in found.each:
        if each.limit is not None and not 0 <= each.limit < ALL_POINTS - each.points:
            raise refuse(
                f"{each.name} is worth {each.points:g} points, and its limit is {each.limit:g}; a "
                f"limit lies below {ALL_POINTS - each.points:g}."
            )
    if twice := {name for name in names if names.count(name) > 1}:
        raise refuse(f"{min(twice)} stands there twice.")
    if found.the_point not in names:
        raise refuse(f"the_point is {found.the_point!r}, which is none of {', '.join(names)}.")
    low, high = WITHOUT_IT
    if not low <= found.without_it <= high:
        raise refuse(f"without_it is {found.without_it}; it lies between {low} and {high}.")
    if (count := len(found.hints)) > MOST_HINTS:
        raise refuse(f"it has {count} hints; at most {MOST_HINTS} are given.")
    if total != ALL_POINTS:
        raise refuse(f"the requirements are worth {total:g} points, not {ALL_POINTS:g}.")
    return found
