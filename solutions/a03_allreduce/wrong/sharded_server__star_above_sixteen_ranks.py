# fails: test_rank_i_serves_shard_i
"""A star where there are more than sixteen ranks."""

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


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    if p > 16:
        return star_sum(comm, x)
    total = np.array(x)

    def shard(k):
        lo, hi = shard_bounds(len(total), p, k)
        return total[lo:hi]

    got = np.empty_like(shard(rank))
    for step in range(1, p):
        dest, source = (rank + step) % p, (rank - step) % p
        comm.Sendrecv(shard(dest), dest, recvbuf=got, source=source)
        shard(rank)[:] += got
    for step in range(1, p):
        dest, source = (rank + step) % p, (rank - step) % p
        comm.Sendrecv(shard(rank), dest, recvbuf=shard(source), source=source)
    return total
