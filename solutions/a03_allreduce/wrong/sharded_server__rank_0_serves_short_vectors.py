# fails: test_rank_i_serves_shard_i
"""Rank 0 serves vectors with fewer elements than ranks."""

import numpy as np
from shards import shard_bounds


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    n = len(total)

    if n < p:
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

    def shard(owner):
        lo, hi = shard_bounds(n, p, owner)
        return total[lo:hi]

    incoming = np.empty_like(shard(rank))
    for step in range(1, p):
        dest, source = (rank + step) % p, (rank - step) % p
        comm.Sendrecv(shard(dest), dest, recvbuf=incoming, source=source)
        shard(rank)[:] += incoming
    for step in range(1, p):
        dest, source = (rank + step) % p, (rank - step) % p
        comm.Sendrecv(shard(rank), dest, recvbuf=shard(source), source=source)
    return total
