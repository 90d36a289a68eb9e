"""Parents are NumPy's integers, in lists."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def double_tree(world_size):
    places = np.arange(world_size)
    first = (places - 1) // 2
    first[0] = -1
    second = np.where(first < 0, -1, world_size - 1 - first)[::-1]
    return list(first), list(second)


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
