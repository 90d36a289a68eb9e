"""Lower-case calls; whichever part is here is added first."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x):
    rank, p = comm.rank, comm.size
    cut = [shard_bounds(len(x), p, r) for r in range(p)]
    result = np.empty(len(x), x.dtype)
    lo, hi = cut[rank]
    mine = x[lo:hi].copy()
    sends = [
        comm.isend(x[slice(*cut[(rank + k) % p])].copy(), (rank + k) % p, 1) for k in range(1, p)
    ]
    gets = [comm.irecv(source=(rank - k) % p, tag=1) for k in range(1, p)]
    for _ in gets:
        _, part = MPI.Request.waitany(gets)
        mine += part
    result[lo:hi] = mine
    sends += [comm.isend(mine, (rank + k) % p, 2) for k in range(1, p)]
    for k in range(1, p):
        result[slice(*cut[(rank - k) % p])] = comm.recv(source=(rank - k) % p, tag=2)
    MPI.Request.waitall(sends)
    return result
