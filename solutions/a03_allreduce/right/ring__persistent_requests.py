"""Persistent requests on one buffer each way, started in every step."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


class Neighbours:
    """One buffer out, one in, and the persistent requests on them."""

    def __init__(self, comm, length, dtype):
        rank, world_size = comm.Get_rank(), comm.Get_size()
        self.out, self.into = np.zeros(length, dtype), np.zeros(length, dtype)
        self.requests = [
            comm.Recv_init(self.into, source=(rank - 1) % world_size),
            comm.Send_init(self.out, dest=(rank + 1) % world_size),
        ]

    def swap(self, outgoing, length):
        self.out[: len(outgoing)] = outgoing
        MPI.Prequest.Startall(self.requests)
        MPI.Request.Waitall(self.requests)
        return self.into[:length].copy()

    def free(self):
        for request in self.requests:
            request.Free()


def reduce_scatter(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    parts = [part.copy() for part in np.array_split(np.array(x), world_size)]
    if world_size == 1:
        return parts[0]
    ring = Neighbours(comm, -(-len(x) // world_size), x.dtype)
    for step in range(world_size - 1):
        mine = parts[(rank - step - 2) % world_size]
        mine += ring.swap(parts[(rank - step - 1) % world_size], len(mine))
    ring.free()
    return parts[rank]


def all_gather(comm, shard, n):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    if world_size == 1:
        return np.array(shard)
    sizes = [hi - lo for lo, hi in (shard_bounds(n, world_size, r) for r in range(world_size))]
    parts = {rank: np.array(shard)}
    ring = Neighbours(comm, -(-n // world_size), shard.dtype)
    for step in range(world_size - 1):
        owner = (rank - step - 1) % world_size
        parts[owner] = ring.swap(parts[(rank - step) % world_size], sizes[owner])
    ring.free()
    return np.concatenate([parts[owner] for owner in range(world_size)])


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
