# fails: test_messages_go_to_neighbours_only
"""A star behind the ring's names."""

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
    total = np.array(x)
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, world_size):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, world_size):
            comm.Send(total, dest)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    return total
