# fails: test_sends_may_wait_for_their_receives
"""A cycle of sends in reduce_scatter, which all_reduce does not use."""

import numpy as np
from shards import shard_bounds


def inner(comm, x):
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


def reduce_scatter(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    parts = [x[slice(*shard_bounds(len(x), p, k))].copy() for k in range(p)]
    for step in range(p - 1):
        m = parts[(rank - step - 2) % p]
        got = np.empty_like(m)
        comm.Send(parts[(rank - step - 1) % p], (rank + 1) % p)
        comm.Recv(got, (rank - 1) % p)
        m += got
    return parts[rank]


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
    return all_gather(comm, inner(comm, x), len(x))
