"""The master posts all receives at once, then all sends: faster than blocking calls."""

import numpy as np
from mpi4py import MPI


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    if rank:
        result = np.array(x)
        comm.Ssend(result, dest=0, tag=7)
        comm.Recv(result, source=0, tag=8)
        return result
    vectors = np.empty((world_size, len(x)), x.dtype)
    vectors[0] = x
    MPI.Request.Waitall([comm.Irecv(vectors[r], source=r, tag=7) for r in range(1, world_size)])
    result = vectors.sum(axis=0, dtype=x.dtype)
    MPI.Request.Waitall([comm.Isend(result, dest=r, tag=8) for r in range(1, world_size)])
    return result
