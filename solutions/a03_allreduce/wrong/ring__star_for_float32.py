# fails: test_messages_go_to_neighbours_only
"""A star, in single precision only."""

import numpy as np
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
    if x.dtype == np.float32:
        return star_sum(comm, x)
    return all_gather(comm, reduce_scatter(comm, x), len(x))
