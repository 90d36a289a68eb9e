"""A module of the shape that students write, for ``ringside.ranks.warm_up``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mpi4py import MPI


@dataclass(frozen=True)
class Bounds:
    """Part of an array."""

    low: int
    high: int


def rehearsed(comm: Any, x: Any, *_: Any) -> Any:
    """Pass parts of an array on, and add what comes."""
    bounds = [Bounds(i * len(x) // 2, (i + 1) * len(x) // 2) for i in range(2)]
    total = np.array(x)
    for part in bounds:
        received = np.empty(part.high - part.low, x.dtype)
        comm.Sendrecv(total[part.low : part.high], dest=1, recvbuf=received, source=1)
        total[part.low : part.high] += received
    request = comm.Isend(total, dest=1)
    MPI.Request.Waitall([request])
    return total
