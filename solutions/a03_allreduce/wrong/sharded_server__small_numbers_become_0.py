# fails: test_sum_on_2_4_and_8_ranks
"""What is small is taken for 0."""

import numpy as np
from shards import shard_bounds


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    if total.dtype.kind == "f":
        total[abs(total) < 1e-25] = 0

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
