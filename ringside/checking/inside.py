"""Supplied functions that call a student's inside a rank, for any assignment.

A case names them as ``through``; what only an assignment needs is in its ``checks/inside.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from ringside.checking.callers import copied, find


def several(comm: Any, target: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Call a function that needs no ranks with each of a list of arguments.

    Returns:
        Per call ``(result, exception's type, changed)``: the type is empty where it returned, and
        ``changed`` says whether an argument isn't as it was.
    """
    answers = []
    for arguments in calls:
        before = deepcopy(arguments)
        try:
            answer: tuple[Any, str] = find(target)(*arguments), ""
        except Exception as error:
            answer = None, type(error).__name__
        answers.append((*answer, not same(arguments, before)))
    return answers


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays to the bit, in lists, tuples and dicts at any depth."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.tobytes() == other.tobytes()
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one is other or one == other)


def twice(comm: Any, target: str, first: tuple[Any, ...], second: tuple[Any, ...]) -> list[Any]:
    """Call a function twice in a row; the first result as it is after the second call."""
    function = find(target)
    before = function(comm, *first)
    kept = copied(before)
    after = function(comm, *second)
    return [kept, before, after]
