# fails: test_messages_may_arrive_in_any_order
"""A half takes whatever comes first."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    """Half of each shard goes round each way; partial sums are taken as they come."""
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    prv, nxt = (rank - 1) % p, (rank + 1) % p

    def half(owner, way):
        lo, hi = shard_bounds(len(total), p, owner % p)
        mid = (lo + hi) // 2
        return total[lo:mid] if way > 0 else total[mid:hi]

    if p == 2:
        out, mine = (
            total[slice(*shard_bounds(len(x), 2, 1 - rank))],
            total[slice(*shard_bounds(len(x), 2, rank))],
        )
        got = np.empty_like(mine)
        comm.Sendrecv(out, nxt, recvbuf=got, source=prv)
        return mine + got
    for k in range(p - 1):
        sends = [comm.Isend(half(rank - k - 1, 1), nxt), comm.Isend(half(rank + k + 1, -1), prv)]
        for way, place in ((1, rank - k - 2), (-1, rank + k + 2)):
            got = np.empty(len(half(place, way)) + 1, x.dtype)
            s = MPI.Status()
            comm.Recv(got, MPI.ANY_SOURCE, status=s)
            way = 1 if s.source == prv else -1
            place = rank - k - 2 if way > 0 else rank + k + 2
            mine = half(place, way)
            mine += got[: len(mine)]
        MPI.Request.Waitall(sends)
    lo, hi = shard_bounds(len(x), p, rank)
    return total[lo:hi].copy()


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
    """Both halves in one loop."""
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    part = [slice(*shard_bounds(len(x), p, r)) for r in range(p)]
    for k in range(2 * (p - 1)):
        send, recv = part[(rank - k - 1) % p], part[(rank - k - 2) % p]
        incoming = np.empty_like(total[recv])
        comm.Sendrecv(total[send], (rank + 1) % p, recvbuf=incoming, source=(rank - 1) % p)
        if k < p - 1:
            total[recv] += incoming
        else:
            total[recv] = incoming
    return total
