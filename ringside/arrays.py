"""NumPy arrays of any dtype and shape: their type, and those that a value holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays in a value, in lists, tuples and dicts at any depth.

    >>> [array.size for array in arrays_in((np.zeros(2), [{"b": np.zeros(3)}, "x"]))]
    [2, 3]
    """
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from arrays_in(item)
