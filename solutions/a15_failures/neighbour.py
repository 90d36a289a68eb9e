"""A copy of each rank's state in the memory of another node, and the way back after a loss.

    5 nodes of 2 ranks:  the rank whose memory keeps the copy of each rank's state

    node     0 and 1           2, 3 and 4
    ranks    0 -> 2 -> 0       4 -> 6 -> 8 -> 4
             1 -> 3 -> 1       5 -> 7 -> 9 -> 5

    in time  start(5)              finish(5)      start(6)              finish(6)
    rank     |  computes step 5 .. |  all-reduce  |  computes step 6 .. |  all-reduce  |
    network     state 5 -> copy                      state 6 -> copy

The ranks of a node die together, so a copy lies on another node: nodes 0 and 1 are a pair, nodes 2
and 3, and so on. If their number is odd, the last three form a cycle. The copy of a rank's state is
kept by the rank at the same place of the next node in its pair or cycle.

A rank's ``memory`` is a dict of steps: ``memory[step]`` is ``(own, copy)``, its own state at that
step, and the copy that it keeps, of another rank's state at the same step. Before its first copy,
and on a rank that is new, ``memory`` is None.

After each ``finish`` all ranks of ``comm`` take part in an all-reduce, so nobody begins a step
before all have finished the last one. When a rank dies, the calls of others raise
``MPI.Exception`` (``docs/student.md``, "Ranks that die"). Let it out of ``start`` and ``finish``:
the program that has called them revokes ``comm``, and all ranks that are left go on with the
``memory`` that they have, the one of their last ``finish`` that returned. So some may be a step
ahead of others. New ranks come in the places of the dead, and all call ``recover``. No rank dies in
``recover``.
"""

import numpy as np
from mpi4py import MPI


def start(
    comm: MPI.Comm,
    state: np.ndarray,
    step: int,
    memory: dict[int, tuple[np.ndarray, np.ndarray]] | None,
    per_node: int,
) -> object:
    """Begin to copy this rank's state, and return without waiting for anybody.

    Args:
        comm: p ranks; ``per_node`` divides p, and there are at least two nodes. Ranks 0 to
            ``per_node - 1`` are node 0, the next ones node 1, and so on.
        state: shape ``(n,)``, float64, of this rank alone. When ``start`` has returned, the next
            step may change it.
        step: its number, from 0 on. It is one more than the newest step in ``memory``.
        memory: from the last ``finish`` or ``recover``, or None. It must stay as it is: it is what
            is left to this rank if somebody dies before ``finish`` returns.
        per_node: ranks of a node.

    Returns:
        Whatever ``finish`` needs.
    """
    ### BEGIN SOLUTION
    keeper, ward = _neighbours(comm, per_node)
    own, copy = state.copy(), np.empty_like(state)
    requests = [comm.Irecv(copy, ward), comm.Isend(own, keeper)]
    return requests, step, (own, copy), memory
    ### END SOLUTION


def finish(handle: object) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Wait until this rank's state has been copied, and it has the copy that it keeps.

    Args:
        handle: what ``start`` has returned.

    Returns:
        The new memory: the pair of ``step``, and of the steps before it only the newest one, whose
        arrays may be those of the old memory.

    - Bytes of ``start`` and ``finish``: a rank sends and receives at most one state. Example: 1000
      elements are 8,000 bytes each way, on any number of ranks. A memory holds at most four
      states, 32,000 bytes.
    - Time: while a rank computes for c seconds between ``start`` and ``finish``, the copy travels.
      Both take at most 1.05 ``max(c, alpha + 8 n beta)``. Half the points up to 1.5 times.
    """
    ### BEGIN SOLUTION
    requests, step, pair, memory = handle
    MPI.Request.Waitall(requests)
    last = max(memory) if memory else None
    return {step: pair} if last is None else {last: memory[last], step: pair}
    ### END SOLUTION


def recover(
    comm: MPI.Comm,
    memory: dict[int, tuple[np.ndarray, np.ndarray]] | None,
    length: int,
    per_node: int,
) -> tuple[int, np.ndarray, dict[int, tuple[np.ndarray, np.ndarray]]]:
    """Give all ranks their states of one step: the newest that every rank with a memory has.

    Args:
        comm: p ranks again, new ones in the places of the dead.
        memory: what this rank has, as it was when somebody died. None on a new rank, or if no
            ``finish`` has returned: such a rank counts as new. It must stay as it is. The newest
            steps of two ranks differ by at most one, and a rank that is a step ahead has the step
            before it, too.
        length: of each state.
        per_node: ranks of a node.

    Returns:
        ``(step, state, memory)``. The step is the same on all ranks. The state is this rank's at
        that step; the next step may change it, and memory must stay as it is then. Memory has the
        pair of ``step`` on all ranks, new ones included, so that the next loss is survived, too.
        It has no later step: those are computed again.

    Raises:
        LookupError: a state is in nobody's memory, since its rank and the keeper of its copy are
            both new. All ranks raise it.

    - Bytes: a new rank receives two states, its own and the copy that it keeps. The ranks that have
      them send one each; in a pair of nodes one rank sends both. Other ranks send and receive no
      state. Besides, each rank may send and receive 64 p bytes.
    """
    ### BEGIN SOLUTION
    keeper, ward = _neighbours(comm, per_node)
    newest = comm.allgather(max(memory) if memory else None)
    new = [rank for rank, step in enumerate(newest) if step is None]
    if comm.allreduce(keeper in new and comm.Get_rank() in new, MPI.LOR):
        raise LookupError(f"ranks {new} are new, and a state of theirs is in nobody's memory.")
    step = min(each for each in newest if each is not None)
    if memory:
        own, copy = memory[step]
        requests = [comm.Isend(own, keeper, tag=_COPY)] if keeper in new else []
        requests += [comm.Isend(copy, ward, tag=_OWN)] if ward in new else []
    else:
        own, copy = np.empty(length), np.empty(length)
        requests = [comm.Irecv(own, keeper, tag=_OWN), comm.Irecv(copy, ward, tag=_COPY)]
    MPI.Request.Waitall(requests)
    return step, own.copy(), {step: (own, copy)}


_OWN, _COPY = 0, 1  # what a new rank gets: its own state, and the copy that it keeps


def _neighbours(comm, per_node):
    """The rank that keeps the copy of this one's state, and the one whose copy this rank keeps."""
    rank, num_nodes = comm.Get_rank(), comm.Get_size() // per_node
    node, place = divmod(rank, per_node)
    first, size = node - node % 2, 2
    if num_nodes % 2 and node >= num_nodes - 3:
        first, size = num_nodes - 3, 3
    return [(first + (node - first + turn) % size) * per_node + place for turn in (1, -1)]
    ### END SOLUTION
