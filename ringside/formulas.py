"""Functions that need no ranks, such as closed forms: asked inside one, since they are a student's.

values = evaluated(ranks, "trials:formulas", "cost:ring_s", calls)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ringside.checking import Case, Verdict, assert_ran


def evaluated(ranks: Any, trial: str, target: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What a function gives for each of ``calls``.

    Args:
        ranks: the fixture.
        trial: an assignment's function that takes ``comm``, ``target`` and ``calls``, and makes
            the calls one after another.

    Raises:
        Verdict: a call raised, or not all of them were answered.
    """
    case = Case(target, 1, 0)
    result = ranks.call(trial, 1, [(target, calls)])
    assert_ran(result, case)
    values = result.values[0]
    if not isinstance(values, list) or len(values) != len(calls):
        raise Verdict(f"{case.function} did not answer all of {len(calls)} calls.")
    return [plain(value) for value in values]


def plain(value: Any) -> Any:
    """NumPy's numbers, which travel as arrays of no dimension, as Python's."""
    is_number = isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    return value.item() if is_number else value
