"""Memory as MPI hands it out: bytes, with no type of their own."""

from __future__ import annotations

from typing import Any

import numpy as np


class Memory(np.ndarray[Any, np.dtype[np.uint8]]):
    """Bytes that ``numpy.frombuffer`` takes, and that ``memory[:] = 0`` or ``= b"abc"`` fills."""

    format = "B"

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, (bytes, bytearray, memoryview)):  # NumPy takes bytes for a number
            value = np.frombuffer(value, np.uint8)
        super().__setitem__(key, value)

    def __bool__(self) -> bool:
        return len(self) > 0

    def release(self) -> None:
        """Do nothing: the memory goes when the last who uses it does."""


def memory_of(data: bytearray | memoryview) -> Memory:
    """The same bytes as memory."""
    return np.frombuffer(data, np.uint8).view(Memory)
