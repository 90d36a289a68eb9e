"""Each shard goes in three messages, all posted at once."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def exchange(comm, outgoing, incoming, next_rank, prev_rank):
    requests = [comm.Irecv(piece, prev_rank) for piece in np.array_split(incoming, 3)]
    requests += [comm.Isend(piece, next_rank) for piece in np.array_split(outgoing, 3)]
    MPI.Request.Waitall(requests)


def reduce_scatter(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    total = np.array(x)  # a contiguous copy; the partial sums grow here

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, owner % world_size)
        return total[lo:hi]

    for step in range(world_size - 1):
        outgoing, mine = shard(rank - step - 1), shard(rank - step - 2)
        incoming = np.empty_like(mine)
        exchange(comm, outgoing, incoming, next_rank, prev_rank)
        mine += incoming
    return shard(rank).copy()


def all_gather(comm, shard, n):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    prev_rank, next_rank = (rank - 1) % world_size, (rank + 1) % world_size
    whole = np.empty(n, shard.dtype)

    def part(owner):
        lo, hi = shard_bounds(n, world_size, owner % world_size)
        return whole[lo:hi]

    part(rank)[:] = shard
    for step in range(world_size - 1):
        exchange(comm, part(rank - step), part(rank - step - 1), next_rank, prev_rank)
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
