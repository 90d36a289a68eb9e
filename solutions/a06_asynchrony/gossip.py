"""Gossip: ranks average with their neighbours only, round after round.

    ring of 5 ranks                   wheel of 5 ranks

    0 - 1 - 2 - 3 - 4 - (0)                1 - 2 - 3 - 4 - (1)     the rim
                                           |   |   |   |
                                           +---+-0-+---+           rank 0, the hub

    one round on rank i:   x_i  <-  w_ii x_i + (sum of w_ij x_j over its neighbours j)

No rank knows the sum of all x, and no rank waits for more than its neighbours. Each edge of the
graph has a weight w_ij, the same in both directions: w_ij = w_ji. A rank's own weight is what
remains, w_ii = 1 - (sum of w_ij). Example: three ranks, all neighbours of each other, with weights
of 1/3 hold 0, 0 and 3. After one round each of them holds 1.

Let W be the matrix of all weights. One round multiplies the values of all ranks by W, and r rounds
by W^r. Each row and each column of W adds up to 1 (W is doubly stochastic), so the mean of all x
stays as it is. The distance from the mean shrinks in each round at least by the factor of W's
second largest absolute eigenvalue.
"""

import numpy as np
from mpi4py import MPI


def average(
    comm: MPI.Comm, x: np.ndarray, neighbours: list[int], weights: list[float], num_rounds: int
) -> np.ndarray:
    """``num_rounds`` rounds of averaging with one's neighbours.

    Args:
        comm: any mpi4py communicator; p >= 1 ranks of it take part.
        x: this rank's array, float64 or float32, of any shape (``()`` and no elements included),
            contiguous or not. Shape and dtype are the same on all ranks.
        neighbours: this rank's neighbours, a list of ranks of ``comm`` in any order. It may be
            empty. If j is a neighbour of i, then i is one of j.
        weights: one number for each of ``neighbours``, in the same order: how much this neighbour's
            x counts. Both ends of an edge are given the same weight. This rank's own weight is
            not given: it is 1 - sum of ``weights``.
        num_rounds: how many rounds; 0 or more, the same on all ranks.

    Returns:
        An array of the dtype and shape of x: this rank's after the last round. Without rounds or
        without neighbours it is a copy of x.

    Raises:
        ValueError: before any message, if ``num_rounds`` is below 0, or if this rank's own row
            can't be right: ``neighbours`` holds this rank itself, a rank twice, or a number that
            is no rank of ``comm``; there are more or fewer weights than neighbours; a weight is
            below 0; the weights add up to more than 1 + 1e-9. The caller sees to it that the rows
            of two ranks fit together, so a rank looks at its own row only.

    - Values: those of W^num_rounds, to 1e-12 in float64 (1e-5 in float32). In a round all ranks
      use values from before this round.
    - Messages: only to neighbours, at most one a round and neighbour, of at most ``x.nbytes``.
      Example: 10 rounds on a ring with 100 float64: a rank sends 20 messages and 16,000 bytes.
    - No library collectives, nor those among neighbours (``Neighbor_allgather``), and no message
      to oneself. No communicator needs to be made; up to 4 + 2 log2(p) in a call are allowed.
    - A neighbour may be a round ahead, or in the next call of ``average`` already.
    - Time: at most 1.05 times ``num_rounds * (alpha + 2 d * x.nbytes * beta)`` where d is the
      largest number of neighbours of any rank. So a round takes one latency: a rank talks to all
      its neighbours at once, not to one after the other.

    Source: Xiao, Boyd, Fast linear iterations for distributed averaging, 2004; Lian et al., Can
    decentralized algorithms outperform centralized algorithms?, NeurIPS 2017.
    """
    ### BEGIN SOLUTION
    if num_rounds < 0:
        raise ValueError(f"num_rounds ({num_rounds}) is below 0")
    others = set(range(comm.Get_size())) - {comm.Get_rank()}
    if not set(neighbours) <= others or len(set(neighbours)) < len(neighbours):
        raise ValueError(f"neighbours ({neighbours}) must be different ranks out of {others}")
    if len(weights) != len(neighbours):
        raise ValueError(f"{len(weights)} weights for {len(neighbours)} neighbours")
    if any(weight < 0 for weight in weights) or sum(weights) > 1 + 1e-9:
        raise ValueError(f"weights ({weights}) must not be below 0, nor add up to more than 1")
    mine = np.array(x, order="C")
    theirs = [np.empty_like(mine) for _ in neighbours]
    for _ in range(num_rounds):
        requests = [
            comm.Irecv(buffer, source=j) for buffer, j in zip(theirs, neighbours, strict=True)
        ]
        requests += [comm.Isend(mine, dest=j) for j in neighbours]
        MPI.Request.Waitall(requests)
        # What was sent is complete, and every rank goes on with values of the last round.
        total = (1 - sum(weights)) * mine
        for weight, other in zip(weights, theirs, strict=True):
            total += weight * other
        mine = np.asarray(total, dtype=mine.dtype)
    return mine
    ### END SOLUTION
