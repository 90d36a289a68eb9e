"""Lists of shards, sent as objects."""

import numpy as np


def all_reduce(comm, x, ranks_per_node):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    if world_size % ranks_per_node:
        raise ValueError(world_size)
    first = rank - rank % ranks_per_node
    inside = range(first, first + ranks_per_node)
    across = range(rank % ranks_per_node, world_size, ranks_per_node)
    shards = summed(comm, np.array_split(np.array(x), ranks_per_node), inside)
    k = rank % ranks_per_node
    pieces = summed(comm, np.array_split(shards[k], len(across)), across)
    shards[k] = np.concatenate(shared(comm, pieces, across))
    return np.concatenate(shared(comm, shards, inside))


def summed(comm, shards, ring):
    count = len(ring)
    at = ring.index(comm.Get_rank())
    for step in range(count - 1):
        out = shards[(at - step - 1) % count]
        came = comm.sendrecv(out, ring[(at + 1) % count], source=ring[(at - 1) % count])
        shards[(at - step - 2) % count] = shards[(at - step - 2) % count] + came
    return shards


def shared(comm, shards, ring):
    count = len(ring)
    at = ring.index(comm.Get_rank())
    for step in range(count - 1):
        out = shards[(at - step) % count]
        came = comm.sendrecv(out, ring[(at + 1) % count], source=ring[(at - 1) % count])
        shards[(at - step - 1) % count] = came
    return shards
