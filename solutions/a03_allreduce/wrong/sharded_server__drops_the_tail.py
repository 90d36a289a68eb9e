# fails: test_sum_on_2_4_and_8_ranks
"""Shards of n // p elements: the last n mod p are never summed."""

import numpy as np
from shards import shard_bounds


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)  # a contiguous copy

    def shard(owner):
        length = len(total) // world_size
        lo, hi = owner * length, (owner + 1) * length
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
