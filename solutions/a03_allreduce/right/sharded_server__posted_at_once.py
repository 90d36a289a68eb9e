"""All messages of a round are posted at once, in rotated order."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    parts = [total[slice(*shard_bounds(len(x), world_size, owner))] for owner in range(world_size)]
    dests = [(rank + step) % world_size for step in range(1, world_size)]
    incoming = {source: np.empty_like(parts[rank]) for source in dests}
    requests = [comm.Irecv(incoming[source], source, tag=1) for source in dests]
    requests += [comm.Isend(parts[dest], dest, tag=1) for dest in dests]
    MPI.Request.Waitall(requests)
    for source in dests:
        parts[rank] += incoming[source]
    requests = [comm.Irecv(parts[source], source, tag=2) for source in dests]
    requests += [comm.Isend(parts[rank], dest, tag=2) for dest in dests]
    MPI.Request.Waitall(requests)
    return total
