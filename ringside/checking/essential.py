"""What a module earns whose essential test fails: at most a tenth of its points.

Ranks and notebooks read this as well, so it needs nothing but Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

ESSENTIAL_SHARE = 0.1  # of a module's points, where its essential test fails
_NO_SCHEME = "This is the point of the exercise: without it a module earns at most a tenth."
_HARDLY_COUNTS = "right, but it hardly counts while "


def holds(message: str) -> bool:
    """Whether it is the message of an essential test that fails."""
    return message.endswith(_NO_SCHEME)


def is_held(message: str) -> bool:
    """Whether it says that a test is right, and hardly counts while an essential one fails."""
    return message.startswith(_HARDLY_COUNTS)


class Marked(Protocol):
    """A test's record, public or hidden."""

    name: str
    points: float
    earned: float
    message: str
    essential: bool


def hold_to_the_essential(tests: Sequence[Marked]) -> None:
    """Cut what a module's tests earned to a tenth, where an essential one earned nothing.

    The tests keep their proportions, and say why they count so little.
    """
    missed = next((test for test in tests if test.essential and not test.earned), None)
    if missed is not None and missed.message.startswith("not run"):
        return  # an earlier call did not end, which tells nothing of the scheme
    if missed is None:
        return
    missed.message = f"{missed.message} {_NO_SCHEME}".strip()
    most = ESSENTIAL_SHARE * sum(test.points for test in tests)
    earned = sum(test.earned for test in tests)
    if earned <= most:
        return
    for test in tests:
        if test.earned:
            test.earned = int(test.earned * most / earned * 1e4) / 1e4  # never above the limit
            test.message = test.message or (
                f"{_HARDLY_COUNTS}{missed.name} fails: that is the point of the exercise."
            )
