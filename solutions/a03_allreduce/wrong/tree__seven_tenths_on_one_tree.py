# fails: test_bytes_per_rank
"""One tree carries seven tenths of the vector."""

import numpy as np
from mpi4py import MPI


def double_tree(world_size):
    """Two binary trees over ranks 0, ..., world_size - 1.

    Args:
        world_size: number of ranks, at least 1.

    Returns:
        ``(parents1, parents2)``: two lists; ``parents1[r]`` is the parent of rank r in tree 1,
        -1 at its root.

    Each is one tree over all ranks, with at most two children a rank and at most
    ``ceil(log2(world_size)) + 1`` edges from the root to any rank. No rank has children in
    both trees; where ``world_size`` is odd, one may.
    """
    pass
    parents1 = [-1] * world_size

    def plant(lo, hi, parent):
        """In-order tree over ranks lo, ..., hi - 1: even ranks are leaves (lo is even)."""
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
    """Sum ``x`` over all ranks: the first half over tree 1, the second over tree 2.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``; not modified.
        num_chunks: pieces into which each half is cut, at least 1; may exceed its length.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    Structure: messages go along the edges of this module's ``double_tree(p)`` only.
    Bytes: each rank sends and receives at most ``2 n + 2`` elements, all of them together at
    most ``2 (p - 1) n``. Messages: at most ``2 num_chunks`` an edge and direction.
    Time: with long vectors (a chunk takes 100 alpha or more on the wire) at most 1.05 times
    ``2 x.nbytes * beta + 4 ceil(log2(p)) (alpha + chunk * beta)``, half the points up to 1.5
    times, where ``chunk = ceil(ceil(n / 2) / num_chunks) * x.itemsize``. So both trees must flow
    at once: while a rank waits in one of them, it must not hold up the other.
    """
    pass
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
        """Post this rank's receives in one tree, and its first sends if it is a leaf."""
        parent = parents[rank]
        children = [child for child, its_parent in enumerate(parents) if its_parent == rank]
        cut = len(total) * 7 // 10
        lo, hi = ((0, cut), (cut, len(total)))[half]
        sums = np.array_split(total[lo:hi], num_chunks)
        results = np.array_split(result[lo:hi], num_chunks)
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
