"""All-reduce with a server on every rank: rank i adds up shard i and hands it to all others.

    step k of p - 1, both times:  rank i sends to i + k and receives from i - k

    k = 1   0 -> 1 -> 2 -> 3 -> 0          k = 2   0 <-> 2   1 <-> 3

Each step is a permutation: every rank sends to one and receives from one, so nobody queues.
If all ranks served rank 0 first, then rank 1, ..., they would queue at one port after another.

The rules of this assignment stand in ``star.py``, and those of every module in the notebook.
"""

import numpy as np
from given.shards import shard_bounds
from mpi4py import MPI


def all_reduce(comm: MPI.Comm, x: np.ndarray) -> np.ndarray:
    """Sum ``x`` over all ranks; rank i adds up shard i of ``shard_bounds`` and nothing else.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    What is bounded, with an example of p = 3 ranks and n = 4, so shards of 2, 1 and 1 elements:

    1. Rank i sends rank j at most shard j of its own ``x``, and later shard i of the sum. So in
       all rank 0 sends rank 1 at most 1 + 2 elements, and rank 1 sends rank 2 at most 1 + 1.
    2. With long vectors (a shard takes 100 alpha or more on the wire) the time is at most 1.05
       times ``2 (p - 1) (alpha + ceil(n / p) * x.itemsize * beta)``. Up to 1.2 times earns half
       the points. The order of the sends decides: see the picture above.
    """
    ### BEGIN SOLUTION
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)  # a contiguous copy

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, owner)
        return total[lo:hi]

    incoming = np.empty_like(shard(rank))
    for step in range(1, world_size):
        dest, source = (rank + step) % world_size, (rank - step) % world_size
        comm.Sendrecv(shard(dest), dest, recvbuf=incoming, source=source)
        shard(rank)[:] += incoming
    for step in range(1, world_size):
        dest, source = (rank + step) % world_size, (rank - step) % world_size
        comm.Sendrecv(shard(rank), dest, recvbuf=shard(source), source=source)
    return total
    ### END SOLUTION
