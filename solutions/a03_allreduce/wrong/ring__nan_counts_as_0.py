# fails: test_sum_on_2_4_and_8_ranks
"""What is no number counts as 0."""

import numpy as np
from shards import shard_bounds


def reduce_scatter(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)

    def shard(k):
        lo, hi = shard_bounds(len(total), p, k % p)
        return total[lo:hi]

    for step in range(p - 1):
        mine = shard(rank - step - 2)
        got = np.empty_like(mine)
        comm.Sendrecv(shard(rank - step - 1), (rank + 1) % p, recvbuf=got, source=(rank - 1) % p)
        mine += np.nan_to_num(got)
    return shard(rank).copy()


def all_gather(comm, shard, n):
    rank, p = comm.Get_rank(), comm.Get_size()
    whole = np.empty(n, shard.dtype)

    def part(k):
        lo, hi = shard_bounds(n, p, k % p)
        return whole[lo:hi]

    part(rank)[:] = shard
    for step in range(p - 1):
        next_rank, prev_rank = (rank + 1) % p, (rank - 1) % p
        comm.Sendrecv(part(rank - step), next_rank, recvbuf=part(rank - step - 1), source=prev_rank)
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
