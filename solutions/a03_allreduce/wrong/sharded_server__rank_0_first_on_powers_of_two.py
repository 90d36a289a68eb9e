# fails: test_time_with_long_vectors
"""Everybody serves rank 0 first, on powers of two."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)

    def shard(owner):
        lo, hi = shard_bounds(len(total), p, owner)
        return total[lo:hi]

    pow2 = p & (p - 1) == 0
    order = [d for d in range(p) if d != rank] if pow2 else [(rank + k) % p for k in range(1, p)]
    back = order if pow2 else [(rank - k) % p for k in range(1, p)]
    for first in (True, False):
        bufs = {s: np.empty_like(shard(rank)) if first else shard(s) for s in back}
        rs = [comm.Irecv(bufs[s], s) for s in back]
        out = shard(rank).copy()
        ss = []
        for d in order:
            if pow2:
                comm.Send(shard(d) if first else out, d)
            else:
                ss.append(comm.Isend(shard(d) if first else out, d))
        MPI.Request.Waitall(ss + rs)
        if first:
            for s in back:
                shard(rank)[:] += bufs[s]
    return total
