# fails: test_rank_i_serves_shard_i
"""Ranks 2 and 3 serve each other's shard."""

import numpy as np
from shards import shard_bounds


def all_reduce(comm, x):
    """Everybody sums one shard, and gives it out."""
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)

    def shard(owner):
        if p > 4:
            owner = {2: 3, 3: 2}.get(owner, owner)
        lo, hi = shard_bounds(len(total), p, owner)
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
