# fails: test_time_with_long_vectors
"""A chunk goes up and down before the next one starts."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def double_tree(world_size):
    parents1 = [-1] * world_size

    def plant(lo, hi, parent):
        root = lo
        if hi - lo > 1:
            root = lo + ((hi - lo) // 2 | 1)  # the odd rank next to the middle
            if root >= hi:
                root -= 2
            plant(lo, root, root)
            if root + 1 < hi:
                plant(root + 1, hi, root)
        parents1[root] = parent

    plant(0, world_size, -1)
    # Odd ranks have children in tree 1. Mirroring makes them even where world_size is even,
    # moving all by one does where it is odd.
    parents2 = [-1] * world_size
    for rank, parent in enumerate(parents1):
        if world_size % 2 == 0:
            parents2[world_size - 1 - rank] = -1 if parent < 0 else world_size - 1 - parent
        else:
            parents2[(rank + 1) % world_size] = -1 if parent < 0 else (parent + 1) % world_size
    return parents1, parents2


def all_reduce(comm, x, num_chunks):
    parts = [sum_chunk(comm, half, which) for which, half in enumerate(np.array_split(np.array(x), 2))
             for half in np.array_split(half, num_chunks)]
    return np.concatenate(parts)


def sum_chunk(comm, total, which):
    rank = comm.Get_rank()
    parents = double_tree(comm.Get_size())[which]
    children = [child for child, parent in enumerate(parents) if parent == rank]
    for child in children:
        incoming = np.empty_like(total)
        comm.Recv(incoming, child)
        total += incoming
    if parents[rank] >= 0:
        comm.Send(total, parents[rank])
        comm.Recv(total, parents[rank])
    for child in children:
        comm.Send(total, child)
    return total

