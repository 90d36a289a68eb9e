"""The memory of a fake tensor: a size, and nothing behind it.

Where the process group reads, writes or sums up a tensor's bytes, a fake tensor gives this in
their place, so that the same code counts the same bytes and touches none.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Phantom(bytearray):
    """Has a length, takes anything that is written into it, and holds nothing.

    Args:
        nbytes: the length.
    """

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self._nbytes = nbytes

    def __len__(self) -> int:
        return self._nbytes

    def __setitem__(self, key: Any, value: Any) -> None:
        """What is written is forgotten."""

    @property
    def data(self) -> bytes:
        """Nothing."""
        return b""

    def tobytes(self) -> bytes:
        """Nothing."""
        return b""

    def copy(self) -> Phantom:
        """Itself: there is nothing that could change."""
        return self

    def view(self, dtype: Any) -> np.ndarray[Any, Any]:
        """Zeros, shape ``(nbytes / itemsize,)``, that all lie in one place."""
        one = np.zeros((), dtype)
        return np.broadcast_to(one, (self._nbytes // one.itemsize,))


def joined(arrays: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Concatenate; phantoms stay without memory."""
    # A stride of 0 marks what `Phantom.view` gives: other arrays here are contiguous.
    if arrays and all(array.strides == (0,) for array in arrays):
        size = sum(array.size for array in arrays)
        return np.broadcast_to(np.zeros((), arrays[0].dtype), (size,))
    return np.concatenate(arrays)
