"""What a submission has earned, part by part: the one account that every output shows.

    part     points                        who gives them
    modules  their weights, 100 in all     the suites
    extra    on top of these, up to 20     the suites
    run      5                             the check of run.json
    texts    5                             a person, in nbgrader's gradebook

    max_score = modules + run + texts      110: the handout's total, and the gradebook's
    score     = what is given so far       a text that waits for a person is no zero

Where the gradebook is known, its points go first: a person's corrections are in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from autograder.course.assignment import Assignment
from ringside.units import format_count

Kind = Literal["module", "extra", "run", "text"]


@dataclass(frozen=True)
class CellMark:
    """One grade cell, as the gradebook has it."""

    points: float | None  # None: nothing is given yet
    by_hand: bool = False  # a person gave them
    waits: bool = False  # for a person
    comment: str = ""  # a person's


@dataclass(frozen=True)
class Part:
    """A module, a run or a text; `points` are None where they are still to be given."""

    name: str
    title: str
    kind: Kind
    of: float
    points: float | None
    by_hand: bool = False
    comment: str = ""
    waits: bool = False  # of a run: a person is to give the points

    @property
    def line(self) -> str:
        """The part in words: `ring: 20 of 35, by hand`."""
        of = f"+{self.of:g}" if self.kind == "extra" else f"{self.of:g}"
        if self.points is None:
            hand = " by hand" if self.kind == "text" or self.waits else ""
            return f"{self.name}: to be graded{hand}, of {of}"
        hand = ", by hand" if self.by_hand and self.kind != "text" else ""
        return f"{self.name}: {round(self.points, 2):g} of {of}{hand}"


@dataclass(frozen=True)
class Account:
    """All parts of one submission."""

    parts: tuple[Part, ...]

    @property
    def score(self) -> float:
        """What is given so far, extra credit included."""
        return round(sum(part.points or 0.0 for part in self.parts), 4)

    @property
    def max_score(self) -> float:
        """What can be earned without extra credit."""
        return sum(part.of for part in self.parts if part.kind != "extra")

    @property
    def by_hand(self) -> float:
        """The points of texts and runs that a person is still to give."""
        texts = sum(part.of for part in self.of_kind("text") if part.points is None)
        return texts + sum(part.of for part in self.parts if part.waits)

    def of_kind(self, *kinds: Kind) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind in kinds)

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    @property
    def sentence(self) -> str:
        """Which points these are.

        >>> Account((Part("ring", "", "module", 100, 93.0), Part("tree", "", "extra", 20, 12.0),
        ...          Part("ring_cluster", "", "run", 5, 5.0), Part("why", "", "text", 5, None)))\\
        ...     .sentence
        'modules 93 of 100; extra 12 of up to 20; run 5 of 5; text: to be graded by hand, 5'
        """
        phrases = [_sum("modules", self.of_kind("module"))]
        phrases += [_sum("extra", self.of_kind("extra"), " up to")] if self.of_kind("extra") else []
        runs = self.of_kind("run")
        unread = sum(part.of for part in runs if part.waits)
        phrases += [_sum("run", runs)] if any(not part.waits for part in runs) else []
        phrases += [f"run: to be graded by hand, {unread:g}"] if unread else []
        texts = self.of_kind("text")
        read = tuple(part for part in texts if part.points is not None)
        name = "text" if len(texts) == 1 else "texts"
        phrases += [_sum(name, read)] if read else []
        rest = self.by_hand - unread
        phrases += [f"{name}: to be graded by hand, {rest:g}"] if rest else []
        return "; ".join(phrases)


def hand_points(account: Account) -> list[str]:
    """A line for each part whose points a person gave."""
    return [part.line for part in account.parts if part.by_hand]


def hand_comments(account: Account) -> list[str]:
    """A line for each part on which a person wrote."""
    return [f"{part.name}: {part.comment}" for part in account.parts if part.comment]


def _sum(name: str, parts: Iterable[Part], up_to: str = "") -> str:
    points = sum(part.points or 0.0 for part in parts)
    return f"{name} {round(points, 2):g} of{up_to} {sum(part.of for part in parts):g}"


def where_texts_count(plan: Assignment) -> str:
    """What to say of a total without hand grading; empty where the assignment has no texts."""
    if not plan.text_points:
        return ""
    number = format_count(len(plan.paragraphs), "text")
    return (
        f"Scores are of {plan.machine_points:g} points: {number} of {plan.text_points:g} points "
        f"in the assignment's {plan.max_score:g} {'are' if len(plan.paragraphs) > 1 else 'is'} "
        "graded by hand, in nbgrader's gradebook only."
    )
