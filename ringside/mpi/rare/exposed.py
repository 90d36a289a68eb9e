"""A rank's own memory in a window, and what the accesses of others do to it.

The link calls it while the rank waits for an answer, for one access after the other, so that each
of them is atomic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.mpi.buffers import BOTTOM, Region, byte_view, empty
from ringside.mpi.datatypes import BYTE, OF_DTYPE
from ringside.mpi.op import PREDEFINED
from ringside.network import codec
from ringside.network.wire import FETCHES


class Exposed:
    """The bytes of a window that are this rank's."""

    def __init__(self, memory: Any) -> None:
        self.base = memory
        named = BYTE if memory is None or memory is BOTTOM else None
        self.view = byte_view(memory, True, named)[0]

    def __call__(self, body: memoryview) -> bytes:
        """Do an access; returns what it fetches."""
        what, op, kind, runs, data = codec.decode(body, copy=False)
        before = self._read(runs.tolist()) if what != "put" else b""
        if what == "put":
            after = data.tobytes()
        elif what == "compare_and_swap":
            new, compare = data[: len(before)], data[len(before) :]
            after = new.tobytes() if before == compare.tobytes() else before
        elif what == "get" or op == "NO_OP":
            after = before
        else:
            after = _combined(op, data.tobytes(), before, kind)
        if after is not before:
            self._write(runs.tolist(), after)
        return before if what in FETCHES else b""

    def _read(self, runs: list[list[int]]) -> bytes:
        return b"".join(self.view[start:end] for start, end in runs)

    def _write(self, runs: list[list[int]], data: bytes) -> None:
        at = 0
        for start, end in runs:
            self.view[start:end] = data[at : at + end - start]
            at += end - start


def _combined(op: str, data: bytes, before: bytes, kind: str) -> bytes:
    if op == "REPLACE":
        return data
    return PREDEFINED[op].combine(data, before, empty(OF_DTYPE[np.dtype(kind)]))


def runs_of(base: int, target: Region) -> Array:
    """The bytes of a window that some entries mean, shape (n, 2), from and to.

    Args:
        base: where the first entry begins.
        target: the entries; where they lie in memory makes no difference.
    """
    if target.datatype.offsets is None or not target.nbytes:
        runs = [[base, base + target.nbytes]] if target.nbytes else []
        return np.array(runs, np.int64).reshape(-1, 2)
    offsets = base + target._picked(target.count)
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    starts, ends = [0, *(breaks + 1)], [*breaks, len(offsets) - 1]
    return np.stack([offsets[starts], offsets[ends] + 1], axis=1)
