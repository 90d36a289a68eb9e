# fails: test_given_communicator_is_used
"""A star where others are in the world."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def star_sum(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    got = np.empty_like(total)
    if rank == 0:
        for k in range(1, p):
            comm.Recv(got, k)
            total += got
        for k in range(1, p):
            comm.Send(total, k)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    return total


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
        mine += got
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
    if comm.Get_size() < MPI.COMM_WORLD.Get_size():
        return star_sum(comm, x)
    return all_gather(comm, reduce_scatter(comm, x), len(x))
