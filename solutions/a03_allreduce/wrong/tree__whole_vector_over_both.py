# fails: test_bytes_per_rank
"""Both trees carry the whole vector."""

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
    total = np.array(x)  # a contiguous copy, where sums grow
    if world_size == 1:
        return total
    result = np.empty_like(total)
    requests, actions = [], []  # what is in flight, and what to do when it has come

    def start(request, action, *words):
        requests.append(request)
        actions.append((action, words))

    def join(half, parents):
        parent = parents[rank]
        children = [child for child, its_parent in enumerate(parents) if its_parent == rank]
        sums = np.array_split(total if half == 0 else total.copy(), num_chunks)
        results = np.array_split(result if half == 0 else result.copy(), num_chunks)
        missing = [len(children)] * num_chunks

        def add(index, incoming):
            sums[index][:] += incoming
            missing[index] -= 1
            if missing[index] == 0:
                send_up(index)

        def send_up(index):
            if parent < 0:
                results[index][:] = sums[index]
                send_down(index)
            else:
                start(comm.Isend(sums[index], parent, tag=half), sent_up, index)

        def sent_up(index):
            # A leaf has two chunks in flight: with all of them its port would have no room
            # left for what it passes on in the other tree.
            if not children and index + 2 < num_chunks:
                send_up(index + 2)

        def send_down(index):
            for child in children:
                start(comm.Isend(results[index], child, tag=half), lambda: None)

        for index in range(num_chunks):
            for child in children:
                incoming = np.empty_like(sums[index])
                start(comm.Irecv(incoming, child, tag=half), add, index, incoming)
            if parent >= 0:
                start(comm.Irecv(results[index], parent, tag=half), send_down, index)
        if not children:
            for index in range(min(2, num_chunks)):
                send_up(index)

    for half, parents in enumerate(double_tree(world_size)):
        join(half, parents)
    while (position := MPI.Request.Waitany(requests)) != MPI.UNDEFINED:
        action, words = actions[position]
        action(*words)
    return result
