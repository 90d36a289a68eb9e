# fails: test_rank_i_serves_shard_i
"""All shards but the last are rounded up, not cut as shard_bounds cuts."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    n = len(total)

    def shard(owner):
        c = -(-n // p)
        lo, hi = min(n, owner * c), min(n, (owner + 1) * c)
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
