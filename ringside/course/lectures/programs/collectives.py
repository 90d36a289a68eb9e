"""Each collective once: what a rank holds before it, and what it holds after it.

Rank r has the numbers 10 r + 1, 10 r + 2, ...: the tens tell where a number comes from.
"""

from typing import Any

import numpy as np

from ringside.session.recorder import compute


def numbers(comm: Any) -> Any:
    """One number for each rank."""
    return 10 * comm.rank + np.arange(1, comm.size + 1)


def told(before: Any, after: Any) -> Any:
    """Both as lists; None stands for nothing."""
    return tuple([] if held is None else held.tolist() for held in (before, after))


def broadcast(comm: Any) -> Any:
    mine = numbers(comm) if comm.rank == 0 else None
    result = np.empty(comm.size, int) if mine is None else mine.copy()
    comm.Bcast(result, root=0)
    return told(mine, result)


def reduce(comm: Any) -> Any:
    mine = numbers(comm)
    result = np.empty_like(mine) if comm.rank == 0 else None
    comm.Reduce(mine, result, root=0)
    return told(mine, result)


def scatter(comm: Any) -> Any:
    mine = numbers(comm) if comm.rank == 0 else None
    result = np.empty(1, int)
    comm.Scatter(mine, result, root=0)
    return told(mine, result)


def gather(comm: Any) -> Any:
    mine = numbers(comm)[:1]
    result = np.empty(comm.size, int) if comm.rank == 0 else None
    comm.Gather(mine, result, root=0)
    return told(mine, result)


def all_gather(comm: Any) -> Any:
    mine = numbers(comm)[:1]
    result = np.empty(comm.size, int)
    comm.Allgather(mine, result)
    return told(mine, result)


def reduce_scatter(comm: Any) -> Any:
    mine, result = numbers(comm), np.empty(1, int)
    comm.Reduce_scatter_block(mine, result)
    return told(mine, result)


def all_reduce(comm: Any) -> Any:
    mine = numbers(comm)
    result = np.empty_like(mine)
    comm.Allreduce(mine, result)
    return told(mine, result)


def all_to_all(comm: Any) -> Any:
    mine = numbers(comm)
    result = np.empty_like(mine)
    comm.Alltoall(mine, result)
    return told(mine, result)


def barrier(comm: Any) -> Any:
    """Rank r arrives after 2, 5, 3 or 8 µs; the times are read from the timeline."""
    compute(seconds=1e-6 * (2, 5, 3, 8)[comm.rank % 4], phase="work")
    comm.Barrier()
