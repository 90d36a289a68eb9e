# fails: test_rank_i_serves_shard_i
"""Rank i serves shard i + 1: the sum is right, the owner is not."""

import numpy as np
from shards import shard_bounds


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)  # a contiguous copy

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, (owner + 1) % world_size)
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
