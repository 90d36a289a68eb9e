# fails: test_messages_go_along_the_trees
"""The sum goes down a chain, not down the trees."""

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
    for which, (half, parents) in enumerate(zip(np.array_split(total, 2), double_tree(world_size))):
        root = parents.index(-1)
        incoming = np.empty_like(half)
        for child in [child for child, parent in enumerate(parents) if parent == rank]:
            comm.Recv(incoming, child, which)
            half += incoming
        if parents[rank] >= 0:
            comm.Send(half, parents[rank], which)
        place = (rank - root) % world_size
        if place > 0:
            comm.Recv(half, (rank - 1) % world_size, 2 + which)
        if place < world_size - 1:
            comm.Send(half, (rank + 1) % world_size, 2 + which)
    return total
