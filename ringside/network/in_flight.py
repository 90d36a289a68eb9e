"""Buffers that wait for their data: each is filled with a NaN that tells whose buffer it is.

A NaN has 22 bits and more to spare, and arithmetic hands them on. So a number that was computed
from a buffer before its data came names the call that has the buffer::

    sign  exponent   quiet  key: 11 bits  number: 11 bits  (zeros, in 64 bits)
    0     all ones   0      _KEY          of the call      0

The NaN is a signalling one: what computes with it makes it quiet. So a buffer whose bits are others
when its data come was written too early, even if it was only doubled in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ringside.arrays import Array

_KEY, _KEY_BITS = 0x535, 11
_MOST = 1 << 11  # numbers; they begin anew
_NAN, _ALL_BUT_QUIET = 0x7F800000, 0x7FBFFFFF
_ZEROS = 29  # of a 64-bit NaN, which a 32-bit one has no room for
_DEPTH = 4  # of lists and dicts that are looked into


class EarlyUseError(RuntimeError):
    """A value was computed from a buffer whose data had not come."""


@dataclass(slots=True)
class Awaited:
    """A call that has a buffer, from its post to its completion. It is told in words if need be."""

    number: int
    call: Callable[[], str]  # with its place: "Irecv(source=1) at ring.py:5"
    until: Callable[[], str] | None = None  # place of the call that completed it
    shared: bool = False  # another call was given the same buffer meanwhile


class InFlight:
    """The calls of one rank that had buffers to be filled, the latest ones, and its open sends."""

    def __init__(self) -> None:
        self.sends: dict[int, Callable[[], None]] = {}  # by request: what refuses a changed buffer
        self._calls: dict[int, Awaited] = {}
        self._of_buffer: dict[int, Awaited] = {}  # the last call that was given it, by address
        self._number = 0

    def add(self, call: Callable[[], str], address: int) -> tuple[Awaited, Awaited | None]:
        """Register a call that was given the buffer at an address; and who waits for it already.

        Args:
            address: 0 of a buffer without elements, which many may wait for.
        """
        self._number += 1
        awaited = Awaited(self._number % _MOST, call)
        self._calls[awaited.number] = awaited
        last = self._of_buffer.get(address) if address else None
        if last is not None and last.until is not None:
            last = None
        if last is not None:
            # Benchmarks post many receives into one buffer, whose data nobody reads.
            last.shared = awaited.shared = True
        self._of_buffer[address] = awaited
        return awaited, last

    @property
    def first(self) -> str:
        """The first call that is known; empty if there was none."""
        return next((awaited.call() for awaited in self._calls.values()), "")

    def check(self, value: Any) -> None:
        """Look, at the end, for buffers that were changed or read too early.

        Raises:
            EarlyUseError: in ``value``, an array or what holds arrays, is a number that was
                computed from one.
            BufferRaceError: a send that nobody waited for has another content by now.
        """
        for unchanged in self.sends.values():
            unchanged()
        if not self._calls:
            return
        for bits in _bits_in(value, _DEPTH):
            keyed = bits[(bits & _ALL_BUT_QUIET) >> _KEY_BITS == _NAN >> _KEY_BITS | _KEY]
            for number in np.unique(keyed & (_MOST - 1)):
                awaited = self._calls.get(int(number))
                if awaited is not None and awaited.until is not None:
                    raise EarlyUseError(
                        f"the buffer of {awaited.call()} was read before its data had come: it is "
                        f"complete at {awaited.until()}, and until then it holds NaN. Read it "
                        "behind that line."
                    )


def poison(kind: np.dtype[Any], number: int) -> Any:
    """What a buffer that waits is full of, as an unsigned word: NaN, the least integer, or 0xCD."""
    word, bits, shift = _poison(kind)
    return word(bits | number << shift if shift >= 0 else bits)


@cache
def _poison(kind: np.dtype[Any]) -> tuple[Any, int, int]:
    """The word's type, its bits, and where the number goes; -1: nowhere."""
    size = kind.itemsize // 2 if kind.kind == "c" else kind.itemsize
    bits = _NAN | _KEY << _KEY_BITS
    if kind.kind in "fc":
        if size == 2:
            return np.uint16, 0x7C00 | _KEY >> 2, -1
        if size == 4:
            return np.uint32, bits, 0
        if size == 8:
            return np.uint64, 0x7FF << 52 | (bits & ~_NAN) << _ZEROS, _ZEROS
        return np.uint64, (1 << 64) - 1, -1  # all ones are NaN in wider floats too
    if kind.kind == "i":
        return np.dtype(f"u{size}").type, 1 << (8 * size - 1), -1
    return np.uint8, 1 if kind.kind == "b" else 0xCD, -1


def _bits_in(value: Any, depth: int) -> Iterator[Array]:
    """The floats in a value, each as the bits of the nearest 32-bit float, without its sign."""
    if isinstance(value, float):
        value = np.float64(value)
    if isinstance(value, (np.ndarray, np.floating, np.complexfloating)):
        array = np.ascontiguousarray(value).reshape(-1)
        if array.dtype.kind == "c":
            array = array.view(f"f{array.itemsize // 2}")
        if array.dtype == np.float32:
            yield array.view(np.uint32) & 0x7FFFFFFF
        elif array.dtype == np.float64:
            words = array.view(np.uint64)
            nans = words[(words >> 52) & 0x7FF == 0x7FF]
            yield (_NAN | ((nans >> _ZEROS) & 0x7FFFFF)).astype(np.uint32)
    elif isinstance(value, dict) and depth:
        for item in list(value.values()):
            yield from _bits_in(item, depth - 1)
    elif isinstance(value, (list, tuple)) and depth:
        for item in value:
            yield from _bits_in(item, depth - 1)
