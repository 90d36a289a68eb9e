# fails: test_given_communicator_is_used
"""The halves talk on COMM_WORLD; the whole is written apart from them."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def reduce_scatter(comm, x):
    comm = MPI.COMM_WORLD
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
    comm = MPI.COMM_WORLD
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
