# fails: test_sum_on_2_4_and_8_ranks
"""Multiplies its own shard by p: right where all ranks hold the same."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    lo, hi = shard_bounds(len(x), comm.Get_size(), comm.Get_rank())
    return all_reduce(comm, x)[lo:hi].copy()


def all_gather(comm, shard, n):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    whole = np.empty(n, shard.dtype)

    def part(owner):
        lo, hi = shard_bounds(n, world_size, owner % world_size)
        return whole[lo:hi]

    part(rank)[:] = shard
    for step in range(world_size - 1):
        comm.Sendrecv(
            part(rank - step), next_rank, recvbuf=part(rank - step - 1), source=prev_rank
        )
    return whole


def all_reduce(comm, x):
    lo, hi = shard_bounds(len(x), comm.Get_size(), comm.Get_rank())
    return all_gather(comm, x[lo:hi] * x.dtype.type(comm.Get_size()), len(x))
