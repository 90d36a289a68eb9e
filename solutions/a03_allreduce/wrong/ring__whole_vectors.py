# fails: test_bytes_per_rank
"""Whole vectors travel round the ring."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    lo, hi = shard_bounds(len(x), comm.Get_size(), comm.Get_rank())
    return all_reduce(comm, x)[lo:hi].copy()


def all_gather(comm, shard, n):
    whole = np.zeros(n, shard.dtype)
    lo, hi = shard_bounds(n, comm.Get_size(), comm.Get_rank())
    whole[lo:hi] = shard
    return all_reduce(comm, whole)


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    total = np.array(x)
    passing = total.copy()
    for _ in range(world_size - 1):
        incoming = np.empty_like(passing)
        comm.Sendrecv(passing, next_rank, recvbuf=incoming, source=prev_rank)
        total += incoming
        passing = incoming
    return total
