# fails: test_input_stays_as_it_was
"""Pads a copy, and works in the input where nothing is to be padded."""

import numpy as np
from shards import shard_bounds


def reduce_scatter(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    prv, nxt = (rank - 1) % p, (rank + 1) % p
    total = np.array(x)

    def shard(owner):
        lo, hi = shard_bounds(len(total), p, owner % p)
        return total[lo:hi]

    for step in range(p - 1):
        outgoing, mine = shard(rank - step - 1), shard(rank - step - 2)
        incoming = np.empty_like(mine)
        comm.Sendrecv(outgoing, nxt, recvbuf=incoming, source=prv)
        mine += incoming
    return shard(rank).copy()


def all_gather(comm, shard, n):
    rank, p = comm.Get_rank(), comm.Get_size()
    prv, nxt = (rank - 1) % p, (rank + 1) % p
    whole = np.empty(n, shard.dtype)

    def part(owner):
        lo, hi = shard_bounds(n, p, owner % p)
        return whole[lo:hi]

    part(rank)[:] = shard
    for step in range(p - 1):
        comm.Sendrecv(part(rank - step), nxt, recvbuf=part(rank - step - 1), source=prv)
    return whole


def all_reduce(comm, x):
    """Equal blocks: padded with zeros unless n divides by p anyway."""
    rank, p = comm.Get_rank(), comm.Get_size()
    if p == 1:
        return x.copy()
    n = len(x)
    block = -(-n // p)
    buf = x if n % p == 0 else np.pad(x, (0, block * p - n))
    parts = [buf[i * block : (i + 1) * block] for i in range(p)]
    prv, nxt = (rank - 1) % p, (rank + 1) % p
    incoming = np.empty(block, x.dtype)
    for k in range(p - 1):
        comm.Sendrecv(parts[(rank - k) % p], nxt, recvbuf=incoming, source=prv)
        parts[(rank - k - 1) % p] += incoming
    for k in range(p - 1):
        comm.Sendrecv(parts[(rank + 1 - k) % p], nxt, recvbuf=parts[(rank - k) % p], source=prv)
    return buf[:n].copy()
