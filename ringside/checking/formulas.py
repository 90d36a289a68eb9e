"""Functions that need no ranks, such as closed forms: asked inside one, since they are a student's.

values = evaluated(ranks, "callers:formulas", "cost:ring_s", calls, shown)
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ringside.checking.assertions import Call, Verdict, assert_ran
from ringside.errors import RankError


@dataclass(frozen=True)
class Asked(Call):
    """A call that is not of a vector on ranks; ``about`` is what a sentence calls it."""

    def __str__(self) -> str:
        return self.about


def one_of(calls: Sequence[Any], first: str) -> str:
    """How a sentence names calls that were made together, of which the first one is ``first``."""
    return first if len(calls) == 1 else f"one of {len(calls)} calls, beginning with {first}"


def answered(
    ranks: Any,
    caller: str,
    target: str,
    calls: Sequence[Any],
    shown: Callable[[Any], tuple[str, str]],
) -> Any:
    """What a function of ``callers.py`` returns that calls a function without ranks.

    Args:
        ranks: the fixture; each call has ranks of its own where they are ``apart``.
        caller: an assignment's function that takes ``comm``, ``target`` and ``calls``, and makes
            the calls one after another.
        shown: how a sentence names a call, and the line that makes it.

    Raises:
        Verdict: a call raised, and is named; or they did not end.
    """
    if getattr(ranks, "apart", False) and len(calls) > 1:
        return [answered(ranks, caller, target, [call], shown)[0] for call in calls]
    result = ranks.call(caller, 1, [(target, calls)])
    about, line = shown(calls[0])
    about = one_of(calls, about)
    if isinstance(result.error, RankError):

        def raises(count: int) -> bool:
            return ranks.call(caller, 1, [(target, calls[:count])]).error is not None

        # The last call of the shortest list that raises, found in a few runs.
        first = bisect.bisect_left(range(1, len(calls)), True, key=raises)
        about, line = shown(calls[first])
    assert_ran(result, Asked(target, 1, 0, about=about, line=line))
    return result.values[0]


def evaluated(
    ranks: Any,
    caller: str,
    target: str,
    calls: Sequence[Any],
    shown: Callable[[Any], tuple[str, str]],
) -> list[Any]:
    """What the function itself gives for each of ``calls``; see ``answered``.

    Raises:
        Verdict: a call raised, or not all of them were answered.
    """
    values = answered(ranks, caller, target, calls, shown)
    if not isinstance(values, list) or len(values) != len(calls):
        function = target.partition(":")[2]
        raise Verdict(f"{function} did not answer all of {len(calls)} calls.")
    return [plain(value) for value in values]


def plain(value: Any) -> Any:
    """NumPy's numbers, which travel as arrays of no dimension, as Python's."""
    is_number = isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    return value.item() if is_number else value
