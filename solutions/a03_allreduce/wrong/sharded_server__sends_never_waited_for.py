# fails: test_sends_may_wait_for_their_receives
"""The second half's sends are never completed."""

import numpy as np
from shards import shard_bounds


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    n = len(total)

    def shard(owner):
        lo, hi = shard_bounds(n, p, owner)
        return total[lo:hi]

    incoming = np.empty_like(shard(rank))
    for step in range(1, p):
        dest, source = (rank + step) % p, (rank - step) % p
        comm.Sendrecv(shard(dest), dest, recvbuf=incoming, source=source)
        shard(rank)[:] += incoming
    for step in range(1, p):
        comm.Isend(shard(rank), (rank + step) % p)
    for step in range(1, p):
        comm.Recv(shard((rank - step) % p), (rank - step) % p)
    return total
