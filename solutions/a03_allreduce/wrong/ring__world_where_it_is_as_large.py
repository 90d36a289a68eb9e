# fails: test_given_communicator_is_used
"""COMM_WORLD in one half, where it has as many ranks as comm."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % p, (rank + 1) % p
    total = np.array(x)

    def shard(owner):
        lo, hi = shard_bounds(len(total), p, owner % p)
        return total[lo:hi]

    for step in range(p - 1):
        outgoing, mine = shard(rank - step - 1), shard(rank - step - 2)
        incoming = np.empty_like(mine)
        comm.Sendrecv(outgoing, next_rank, recvbuf=incoming, source=prev_rank)
        mine += incoming
    return shard(rank).copy()


def all_gather(comm, shard, n):
    comm = comm if comm.Get_size() != MPI.COMM_WORLD.Get_size() else MPI.COMM_WORLD
    rank, p = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % p, (rank + 1) % p
    whole = np.empty(n, shard.dtype)

    def part(owner):
        lo, hi = shard_bounds(n, p, owner % p)
        return whole[lo:hi]

    part(rank)[:] = shard
    for step in range(p - 1):
        comm.Sendrecv(part(rank - step), next_rank, recvbuf=part(rank - step - 1), source=prev_rank)
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
