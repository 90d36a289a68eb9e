"""Half of every shard goes round each way, both at once."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def halves(array):
    middle = len(array) // 2
    return array[:middle], array[middle:]


def reduce_scatter(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    parts = np.array_split(np.array(x), world_size)
    for step in range(world_size - 1):
        requests, additions = [], []
        for way, sign in ((0, 1), (1, -1)):  # first halves to the next rank, second to the previous
            outgoing = halves(parts[(rank - sign * (step + 1)) % world_size])[way]
            mine = halves(parts[(rank - sign * (step + 2)) % world_size])[way]
            incoming = np.empty_like(mine)
            requests.append(comm.Irecv(incoming, (rank - sign) % world_size, tag=way))
            requests.append(comm.Isend(outgoing, (rank + sign) % world_size, tag=way))
            additions.append((mine, incoming))
        MPI.Request.Waitall(requests)
        for mine, incoming in additions:
            mine += incoming
    return parts[rank].copy()


def all_gather(comm, shard, n):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    whole = np.empty(n, shard.dtype)
    parts = np.array_split(whole, world_size)
    parts[rank][:] = shard
    for step in range(world_size - 1):
        requests = []
        for way, sign in ((0, 1), (1, -1)):
            into = halves(parts[(rank - sign * (step + 1)) % world_size])[way]
            outgoing = halves(parts[(rank - sign * step) % world_size])[way]
            requests.append(comm.Irecv(into, (rank - sign) % world_size, tag=way))
            requests.append(comm.Isend(outgoing, (rank + sign) % world_size, tag=way))
        MPI.Request.Waitall(requests)
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
