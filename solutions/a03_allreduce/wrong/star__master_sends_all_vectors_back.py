# fails: test_bytes_per_rank
"""Rank 0 hands every rank all vectors, and each rank adds them up itself."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    vectors = np.zeros((world_size, len(x)), x.dtype)
    vectors[rank] = x
    if rank == 0:
        for source in range(1, world_size):
            comm.Recv(vectors[source], source)
        for dest in range(1, world_size):
            comm.Send(vectors, dest)
    else:
        comm.Send(vectors[rank], 0)
        comm.Recv(vectors, 0)
    return vectors.sum(axis=0)
