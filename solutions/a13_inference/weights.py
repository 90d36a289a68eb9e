"""New weights (extra): trainers hand each sampler the block of a matrix that it computes with.

In reinforcement learning some ranks, the trainers, change the weights of a model. Others, the
samplers, write answers with it, and need the new weights after each step. Both have a matrix in
parts, but not in the same ones. Here are the ranks that have the parts of a matrix of 8 x 6:

                trainers            samplers
    rows 0-1    0 0 0 0 0 0         4 4 4 5 5 5
    rows 2-3    1 1 1 1 1 1         4 4 4 5 5 5     Rank 1 sends rank 4 the piece of rows 2-3 and
    rows 4-5    2 2 2 2 2 2         4 4 4 5 5 5     columns 0-2, and so on: 8 messages, each of
    rows 6-7    3 3 3 3 3 3         4 4 4 5 5 5     6 numbers.

No collective does this. Each piece, what a trainer has and a sampler needs, goes from the one to
the other, and nobody ever has the whole matrix.

A layout is a dict ``rank -> (rows, columns)``, the block of the matrix that the rank has. ``rows``
and ``columns`` are ``(start, stop)``, as in a slice; ``given/layouts.py`` makes some.

- Each rank of ``comm`` stands in exactly one of the two layouts.
- Trainers' blocks that aren't equal have no element in common. All of them together are the matrix.
- Several trainers may have equal blocks: copies. Samplers' blocks may lie anywhere, also over one
  another.
- A block may be empty.

Source: "Weight transfer for RL post-training in under 2 seconds", research.perplexity.ai, 24
September 2025: a plan that is made once says which GPU sends which weights to which one.
"""

import numpy as np
from given.layouts import Block, Layout
from mpi4py import MPI


def plan(trainer: Layout, sampler: Layout) -> list[tuple[int, int, Block]]:
    """Say which rank sends which piece to which.

    Args:
        trainer, sampler: the two layouts; not modified.

    Returns:
        A list of ``(source, dest, (rows, columns))``: a trainer, a sampler, and where the piece
        lies in the matrix. All ranks make the same list. Its order is yours.

    - Each element of a sampler's block stands in exactly one of its pieces.
    - Copies: a sampler gets what it needs of a block from one of the ranks that have this block.
      If c ranks have it and d samplers need some of it, each of the c sends to at most
      ``ceil(d / c)``. Example: 2 copies and 5 samplers: 3 and 2.
    - Nothing: where there is no common element there is no piece.
    """
    ### BEGIN SOLUTION
    holders = {}
    for rank, block in trainer.items():
        holders.setdefault(block, []).append(rank)
    pieces = []
    for block, ranks in holders.items():
        turn = 0
        for dest, needed in sampler.items():
            piece = tuple(
                (max(a, c), min(b, d)) for (a, b), (c, d) in zip(block, needed, strict=True)
            )
            if all(start < stop for start, stop in piece):
                pieces.append((ranks[turn % len(ranks)], dest, piece))
                turn += 1
    return pieces
    ### END SOLUTION


def sync(
    comm: MPI.Comm, weights: np.ndarray, trainer: Layout, sampler: Layout
) -> np.ndarray | None:
    """Send the pieces; all ranks call it.

    Args:
        comm: any communicator. Ranks of the layouts are its ranks.
        weights: this rank's block, 2-D. A trainer's is new. A sampler's is the one that it has
            computed with so far; the new one has its shape and dtype.

    Returns:
        On a sampler its new block. On a trainer None.

    - Only point-to-point calls. What was given stays as it is, a sampler's old block, too.
    - Bytes: from each source to each dest at most those of the piece between them. In the drawing
      these are 6 numbers, 48 bytes in float64. Rank 0 sends 96 bytes; the whole matrix has 384.
    - Messages: at most one for each piece.
    - Time: where S samplers need equal pieces from each of N trainers, at most 1.05 times
      ``(N + S) (alpha + w beta)``, with w bytes in a piece. Up to 1.5 times earns half the points.
    """
    ### BEGIN SOLUTION
    rank = comm.Get_rank()
    block = np.empty_like(weights) if rank in sampler else None
    for source, dest, piece in plan(trainer, sampler):  # in one order on all ranks: no deadlock
        if rank == source:
            comm.Send(weights[_place(trainer[rank], piece)].copy(), dest)
        elif rank == dest:
            place = _place(sampler[rank], piece)
            incoming = np.empty_like(block[place])
            comm.Recv(incoming, source)
            block[place] = incoming
    return block


def _place(block, piece):
    """Where a piece lies in a block, as slices."""
    return tuple(
        slice(start - first, stop - first)
        for (first, _), (start, stop) in zip(block, piece, strict=True)
    )
    ### END SOLUTION
