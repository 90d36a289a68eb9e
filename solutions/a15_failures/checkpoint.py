"""Checkpoints that are whole or not there, and that any number of ranks can read.

    a vector of 11 elements        0  1  2 | 3  4  5 | 6  7  8 | 9 10
    saved by 4 ranks, s = 3        rank 0    rank 1    rank 2    rank 3     each its own shard
    loaded by 3 ranks, s = 4       rank 0       | rank 1       | rank 2
    rank 1 of 3 needs 4 to 7:      2 elements of rank 1's piece, and 2 of rank 2's

All ranks may end at any moment, and a new run then begins where the last checkpoint was taken, as a
rule with another number of ranks. A rank that is killed in ``save`` leaves some pieces of the new
checkpoint in the store and others not. So there must be a sign that a checkpoint is whole, and the
one before must stay until then.

What ``store`` offers (``ringside.Store``; ``docs/student.md``, "Checkpoints that outlive the
ranks"): ``put(name, array)``, ``get(name, start=0, stop=None)``, ``names()`` and ``remove(name)``.
One ``put`` appears whole or not at all; two are two. Names are texts of at most 80 characters, and
the names that you give are yours to choose. Nobody else uses the store.
"""

import numpy as np
from mpi4py import MPI

import ringside


def save(comm: MPI.Comm, store: ringside.Store, step: int, shard: np.ndarray, length: int) -> None:
    """Write a checkpoint of a vector that is spread over the ranks.

    Args:
        comm: the ranks that save; N of them.
        store: where to; it may hold earlier checkpoints, and what a ``save`` has left in which a
            rank was killed.
        step: the number of the checkpoint, from 0; larger than that of each whole one in the store,
            and perhaps that of one which isn't whole.
        shard: this rank's elements of the vector, ``r s`` to ``(r + 1) s - 1`` with
            ``s = ceil(length / N)``, r its rank: the last shards may be shorter, or empty. The
            dtype is the same on all ranks; float64, float32 or int64.
        length: elements of the whole vector.

    - When ``save`` has returned on all ranks, the checkpoint is whole, and at most two checkpoints
      are left in the store, with all that failed ``save`` calls had left: at most
      ``2 (length itemsize + 1024)`` bytes. Length and dtype are those of all earlier ones.
    - A rank may be killed at any moment. Then any other rank may raise, which ends the run for all.
      Whatever moment it was, ``load`` finds this checkpoint or the last whole one before it, each
      as one ``save`` wrote it: the run that goes on may save a step again, with other bits.
    - Bytes: each rank puts its own shard, and one rank at most 1 KiB besides; a rank gets at most
      1 KiB. Ranks send each other no shards: at most ``16 (N - 1)`` bytes a rank, with library
      collectives counted as a ring. Example: length 11 on 4 ranks in float64: 24, 24, 24 and 16
      bytes, and at most 1 KiB besides.
    - Time: at most 1.05 times that in which a rank puts its shard, ``N + 6`` other calls of the
      store (``store_alpha_s`` each), and ``4 ceil(log2 N)`` latencies, where the store holds no
      more than one earlier checkpoint of N ranks. Half the points up to 1.5 times.
    """
    ### BEGIN SOLUTION
    rank = comm.Get_rank()
    store.put(f"{step} piece {rank}", shard)
    comm.Barrier()  # all pieces are there
    if rank == 0:
        store.put(f"{step} whole", np.array([comm.Get_size()]))
        # Other ranks may be in the next save by now: its pieces stay.
        older = [name for name in store.names() if _step(name) < step]
        # Signs first: no checkpoint may look whole that isn't.
        for name in sorted(older, key=lambda name: not name.endswith("whole")):
            store.remove(name)


def _step(name):
    return int(name.split()[0])
    ### END SOLUTION


def load(comm: MPI.Comm, store: ringside.Store, length: int) -> tuple[int, np.ndarray] | None:
    """Read the newest whole checkpoint, each rank the elements of its new shard.

    Args:
        comm: the ranks that load; M of them, as many as saved, or fewer, or more.
        store: where from.
        length: elements of the whole vector, as at ``save``.

    Returns:
        The step and this rank's shard, the elements ``r s`` to ``(r + 1) s - 1`` with
        ``s = ceil(length / M)``: a new array, equal bit for bit to what was saved, of the same
        dtype, perhaps empty. All ranks return the same step, that of the newest whole checkpoint.
        None on all ranks if there is no whole checkpoint.

    - A step is a number: 12 is newer than 8.
    - Bytes: a rank gets the elements of its shard, and at most 1 KiB besides; ranks send each other
      at most ``16 (M - 1)`` bytes a rank. Example: length 11 in float64 on 3 ranks: rank 1 gets 32
      bytes.
    """
    ### BEGIN SOLUTION
    rank, size = comm.Get_rank(), comm.Get_size()
    steps = [_step(name) for name in store.names() if name.endswith("whole")]
    step = comm.bcast(max(steps, default=-1))
    if step < 0:
        return None
    [num_pieces] = store.get(f"{step} whole")
    first, last = _bounds(length, size, rank)
    parts = [store.get(f"{step} piece 0", 0, 0)]  # nothing, of the right dtype
    for piece in range(num_pieces):
        begin, end = _bounds(length, num_pieces, piece)
        low, high = max(first, begin), min(last, end)
        if low < high:
            parts.append(store.get(f"{step} piece {piece}", low - begin, high - begin))
    return step, np.concatenate(parts)


def _bounds(length, num_ranks, rank):
    s = -(-length // num_ranks)
    return min(rank * s, length), min((rank + 1) * s, length)
    ### END SOLUTION
