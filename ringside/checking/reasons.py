"""Failures of one cause are told once, by `ringside check` as on the feedback page.

The cause is the author's sentence without the case that it begins with, and without numbers::

    all_reduce on 4 ranks, n = 11, float64: rank 3 sent 880 bytes; at most 192 are allowed.
    all_reduce on 7 ranks, n = 5, float32: rank 0 sent 96 bytes; at most 60 are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

Test = TypeVar("Test")

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
# "all_reduce on 5 ranks, n = 11, float64: rank 3 sent ...": what stands before the reason
_CASE = re.compile(r"(?:not run under \w+[^:]*: )?(?:\w+ on \d+ \w+\b[^:]*: )?")


def reason(message: str) -> str:
    """What is wrong, whatever the case: a sentence without its first words and its numbers.

    >>> reason("sum on 4 ranks, n = 11: rank 3 sent 880 bytes; at most 192 are allowed.")
    'rank # sent # bytes; at most # are allowed.'
    """
    return _NUMBER.sub("#", _CASE.sub("", message, count=1))


def by_reason(
    tests: Sequence[Test], reason_of: Callable[[Test], str | None]
) -> list[tuple[Test, tuple[Test, ...]]]:
    """The tests, each with the later ones of the same reason; None: it is alone with its own."""
    groups: dict[str | int, list[Test]] = {}
    for number, test in enumerate(tests):
        cause = reason_of(test)
        groups.setdefault(number if cause is None else cause, []).append(test)
    return [(first, tuple(rest)) for first, *rest in groups.values()]
