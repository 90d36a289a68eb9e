"""Objects of the lower-case calls, as bytes; ranks write and read them, the network never does."""

from __future__ import annotations

import pickle as std_pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ringside.network.wire import ENVELOPE_BYTES

LABEL_BYTES = 64  # of numbers and text beside arrays that count as envelope
_MAX_DEPTH = 40


class Pickle:
    """How objects become bytes; ``MPI.pickle`` is the one that all lower-case calls use."""

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[..., Any] | None = None,
        protocol: int | None = None,
    ) -> None:
        self._dumps = dumps
        self._loads = loads
        self.PROTOCOL = std_pickle.HIGHEST_PROTOCOL if protocol is None else protocol

    def dumps(self, obj: Any) -> bytes:
        """Return ``obj`` as bytes."""
        if self._dumps is not None:
            return self._dumps(obj)
        return std_pickle.dumps(obj, self.PROTOCOL)

    def loads(self, data: Any) -> Any:
        """Return the object that ``data`` holds."""
        return std_pickle.loads(data) if self._loads is None else self._loads(data)


pickle = Pickle()


def named(handle: Any, name: str) -> Any:
    """What ``__reduce__`` returns for a predefined handle, or for a copy of one."""
    module = sys.modules["mpi4py.MPI"]
    original = getattr(module, name)
    return name if handle is original else (_copy_of, (type(handle), name))


def _copy_of(kind: type[Any], name: str) -> Any:
    return kind(getattr(sys.modules["mpi4py.MPI"], name))


def loads(data: Any) -> Any:
    """Return the object that a message holds; None for an empty message."""
    return pickle.loads(data) if data else None


def packed(obj: Any) -> tuple[bytes, int]:
    """Return ``obj`` as bytes, and how many of them count as payload."""
    data = pickle.dumps(obj)
    floor = len(data) - ENVELOPE_BYTES
    return data, max(floor, min(payload_bytes(obj), len(data)))


def payload_bytes(obj: Any) -> int:
    """Bytes of numbers and text in ``obj``, as an upper-case call would send them.

    Beside arrays a few of them are an envelope: the number of a shard, the names of fields.
    """
    arrays: list[int] = []
    rest = _tally(obj, arrays, 0)
    return sum(arrays) + max(0, rest - LABEL_BYTES) if arrays else rest


def _tally(obj: Any, arrays: list[int], depth: int) -> int:
    """Bytes of all but arrays, whose bytes are appended.

    What lies very deep, or in itself, isn't looked at.
    """
    if depth > _MAX_DEPTH or obj is None:
        return 0
    if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
        arrays.append(int(obj.nbytes))
        return 0
    if isinstance(obj, np.ndarray):
        parts: list[Any] = obj.ravel().tolist()
    elif isinstance(obj, dict):
        parts = [*obj.keys(), *obj.values()]
    elif isinstance(obj, list | tuple | set | frozenset):
        parts = list(obj)
    else:
        size = _scalar_bytes(obj)
        if size is not None:
            return size
        parts = _contents(obj)
    return sum(_tally(part, arrays, depth + 1) for part in parts)


def _scalar_bytes(obj: Any) -> int | None:
    if isinstance(obj, np.generic):
        return int(obj.nbytes)
    if isinstance(obj, bool):
        return 1
    if isinstance(obj, int):
        return max(8, (obj.bit_length() + 7) // 8)
    if isinstance(obj, bytes | bytearray | str):
        return len(obj)
    return {float: 8, complex: 16}.get(type(obj))


def _contents(obj: Any) -> list[Any]:
    """What pickle would write of an object of any other class, but for the class."""
    if isinstance(obj, type):
        return []
    try:
        reduced = obj.__reduce_ex__(std_pickle.HIGHEST_PROTOCOL)
    except Exception:  # a class of the student's; pickle itself got through
        return []
    if isinstance(reduced, str):
        return []
    return [list(part) if isinstance(part, Iterator) else part for part in reduced[1:]]
