"""The lengths that `ringside launch` takes where none is asked for: what a laptop holds.

Vectors of n elements go up to 8 MB. Of a function whose inputs grow faster, such as layers of
n x n weights, shorter ones are taken: no rank's inputs are longer than 64 MiB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from ringside.checking import inputs
from ringside.errors import RingsideError

__all__ = ["USUAL", "fitting"]

USUAL = (1_000, 100_000, 1_000_000)  # from the latency's share of the time to the bandwidth's
MOST_BYTES = 64 << 20  # of one rank's inputs
_TRIED = (64, 128)


def fitting(path: Path, function: str, words: Sequence[str], dtype: str) -> tuple[int, ...]:
    """The usual lengths, or shorter ones where the function's inputs would be too long.

    How the inputs grow is seen at two short lengths. Where they can't be made, the lengths are
    the usual ones, and the launch itself says why.
    """
    try:
        options = [inputs.parse_options([*words, "--dtype", dtype, "--n", str(n)]) for n in _TRIED]
        first, second = (
            _nbytes(inputs.arguments_of_rank(path, function, 2, 0, trial)) for trial in options
        )
    except RingsideError:
        return USUAL
    if not 0 < first < second:
        return USUAL
    # Bytes grow as n ** power; the second length tried is twice the first, hence log2.
    power = math.log2(second / first)
    longest = int(_TRIED[1] * (MOST_BYTES / second) ** (1 / power))
    if longest >= USUAL[-1]:
        return USUAL
    longest = max(16, 1 << (longest.bit_length() - 1))
    return longest // 16, longest // 4, longest


def _nbytes(value: Any) -> int:
    """Bytes of the arrays and tensors in a value."""
    nbytes = getattr(value, "nbytes", None)
    if nbytes is not None:
        return int(nbytes)
    if isinstance(value, Mapping):
        return sum(map(_nbytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_nbytes, value))
    if is_dataclass(value):
        return sum(_nbytes(getattr(value, field.name)) for field in fields(value))
    return 0
