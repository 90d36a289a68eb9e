r"""All-reduce over two binary trees at once (extra): each carries half of the vector.

    tree 1, p = 6            tree 2, p = 6: tree 1 with rank r renamed to 5 - r

          3                        2
        /   \                    /   \
       1     5                  4     0
      / \   /                  / \   /
     0   2 4                  5   3 1

In one tree half of the ranks, the leaves, would send but never pass on: half of the network's
ports stay idle. Rank r is a leaf in one tree and has children in the other, so all are busy.
Cut into chunks, the halves flow: up to the root, adding, then down again.

The rules of this assignment stand in ``star.py``, and those of every module in the notebook.

Source: Sanders, Speck, Traeff 2009, "Two-tree algorithms for full bandwidth broadcast,
reduction and scan".
"""

import numpy as np
from given.shards import shard_bounds
from mpi4py import MPI


def double_tree(world_size: int) -> tuple[list[int], list[int]]:
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
    ### BEGIN SOLUTION
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
    ### END SOLUTION


def all_reduce(comm: MPI.Comm, x: np.ndarray, num_chunks: int) -> np.ndarray:
    """Sum ``x`` over all ranks: the first half over tree 1, the second over tree 2.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``.
        num_chunks: pieces into which each half is cut, at least 1; may exceed its length.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    What is bounded, where ``chunk = ceil(ceil(n / 2) / num_chunks) * x.itemsize`` bytes:

    1. Messages go along the edges of this module's ``double_tree(p)`` only, at most
       ``2 num_chunks`` over an edge in each direction.
    2. Each rank sends and receives at most ``2 n + 2`` elements, and all of them together at most
       ``2 (p - 1) n``: for p = 5 and n = 20 that is 42, and 160 together.
    3. With long vectors (a chunk takes 100 alpha or more on the wire) the time is at most 1.05
       times ``2 x.nbytes * beta + 4 ceil(log2(p)) (alpha + chunk * beta)``. Up to 1.5 times earns
       half the points. Both trees must flow at once: while a rank waits in one of them, it must
       not hold up the other.
    """
    ### BEGIN SOLUTION
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
        lo, hi = shard_bounds(len(total), 2, half)
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
    ### END SOLUTION
