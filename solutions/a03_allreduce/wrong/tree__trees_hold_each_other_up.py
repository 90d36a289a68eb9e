# fails: test_time_with_long_vectors
"""Waits for both trees in turn: each one holds up the other."""

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
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    flows = []
    for half, parents in zip(np.array_split(total, 2), double_tree(world_size)):
        children = [child for child, parent in enumerate(parents) if parent == rank]
        flows.append((parents[rank], children, np.array_split(half, num_chunks)))
    sends = []
    for index in range(num_chunks):
        for half, (parent, children, chunks) in enumerate(flows):
            for child in children:
                incoming = np.empty_like(chunks[index])
                comm.Recv(incoming, child, half)
                chunks[index] += incoming
            if parent >= 0:
                sends.append(comm.Isend(chunks[index], parent, half))
    MPI.Request.Waitall(sends)
    sends = []
    for index in range(num_chunks):
        for half, (parent, children, chunks) in enumerate(flows):
            if parent >= 0:
                comm.Recv(chunks[index], parent, half)
            sends += [comm.Isend(chunks[index], child, half) for child in children]
    MPI.Request.Waitall(sends)
    return total
