"""For ``checks/inside.py``: the function that a target names, and the arrays in a value.

    function = find("ring:all_reduce")
    before = [array.copy() for array in arrays_in(arguments)]
    result = function(comm, *arguments)
    changed = any(not np.array_equal(a, b) for a, b in zip(arrays_in(arguments), before))

An assignment's ``checks/inside.py`` calls your functions inside a rank, where memory and inputs can
be looked at. It imports what it needs for that from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ringside.arrays import arrays_in
from ringside.targets import find

__all__ = [
    "arrays_in", "copied", "error_of", "find", "lists_differ", "lists_in", "overlapping",
]  # fmt: skip


def lists_in(value: Any) -> Iterator[list[Any]]:
    """The lists in a value, in lists and tuples at any depth, the value itself included."""
    if isinstance(value, list):
        yield value
    if isinstance(value, list | tuple):
        for item in value:
            yield from lists_in(item)


def lists_differ(pairs: Iterable[tuple[list[Any], list[Any]]]) -> bool:
    """Whether a list holds other objects than a copy that was made of it earlier.

    >>> given = [np.zeros(2)]
    >>> pairs = [(given, list(given))]
    >>> given[0] = np.zeros(2)
    >>> lists_differ(pairs)
    True
    """
    return any(list(map(id, now)) != list(map(id, then)) for now, then in pairs)


def copied(value: Any) -> Any:
    """The same value with copies of its arrays, in lists, tuples and dicts at any depth."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list | tuple):
        items = map(copied, value)
        return list(items) if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return value


def overlapping(values: Iterable[Any]) -> bool:
    """Whether two of these arrays share memory; what is no array shares none.

    >>> whole = np.zeros(4)
    >>> overlapping([whole, None, whole[2:]]), overlapping([whole[:2], whole[2:]])
    (True, False)
    """
    arrays = [value for value in values if isinstance(value, np.ndarray) and value.size]
    return any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def error_of(target: str, *arguments: Any) -> str:
    """The type of the exception that a call raises; empty if it returns.

    >>> error_of("math:sqrt", -1), error_of("math:sqrt", 1)
    ('ValueError', '')
    """
    try:
        find(target)(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""
