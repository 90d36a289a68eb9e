"""The ring of a communicator in reversed order; its shards are numbered from the other end."""

import numpy as np
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
    flipped = comm.Split(0, -comm.rank)
    parts = np.array_split(np.array(x), flipped.size)
    order = flipped.rank
    p = flipped.size
    for step in range(p - 1):
        box = np.empty_like(parts[(order - step - 1) % p])
        flipped.Sendrecv(
            parts[(order - step) % p], (order + 1) % p, step, box, (order - 1) % p, step
        )
        parts[(order - step - 1) % p] = parts[(order - step - 1) % p] + box
    for step in range(p - 1):
        flipped.Sendrecv(
            parts[(order + 1 - step) % p],
            (order + 1) % p,
            step,
            parts[(order - step) % p],
            (order - 1) % p,
            step,
        )
    flipped.Free()
    return np.concatenate(parts)


def unused(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
