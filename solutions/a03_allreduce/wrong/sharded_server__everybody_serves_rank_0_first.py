# fails: test_time_with_long_vectors
"""All ranks send to rank 0 first, then to rank 1, ...: they queue at one port after another."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    parts = [total[slice(*shard_bounds(len(x), world_size, owner))] for owner in range(world_size)]
    others = [other for other in range(world_size) if other != rank]
    incoming = {other: np.empty_like(parts[rank]) for other in others}
    requests = [comm.Irecv(incoming[other], other) for other in others]
    requests += [comm.Isend(parts[other], other) for other in others]
    MPI.Request.Waitall(requests)
    for other in others:
        parts[rank] += incoming[other]
    requests = [comm.Irecv(parts[other], other) for other in others]
    requests += [comm.Isend(parts[rank], other) for other in others]
    MPI.Request.Waitall(requests)
    return total
