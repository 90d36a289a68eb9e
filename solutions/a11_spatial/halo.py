"""Halo exchange: each rank borrows the rows at its neighbours' edges.

Images of shape (B, C, H, W) are cut into parts of whole rows. A 5 x 5 window reaches two rows
beyond its centre, so a rank needs two rows of each neighbour. These are its halo:

    rank 0    rows  0  1  2  3 [4  5]                  [ ] halo: a neighbour's rows
    rank 1         [2  3] 4  5  6  7 [8  9]
    rank 2                      [6  7] 8  9 10

Nothing stands above the image's first row and below its last one. What belongs there, such as
zeros, the convolution adds.

``exchange_grid`` cuts in both directions. It may use what you write for ``exchange``.
"""

import numpy as np
from mpi4py import MPI


def exchange(comm: MPI.Comm, x: np.ndarray, halo_width: int) -> np.ndarray:
    """This rank's rows with those of its neighbours that lie next to them.

    Args:
        comm: any communicator. Rank r has the rows that follow those of rank r - 1.
        x: this rank's rows, shape ``(B, C, h, W)``, float64 or float32, contiguous or not. The
            height h may differ from rank to rank; B, C, W and the dtype are the same on all.
        halo_width: rows of each neighbour, 0 or more, the same on all ranks.

    Returns:
        Shape ``(B, C, above + h + below, W)``. ``above`` is ``halo_width``, and 0 on the first
        rank; ``below`` is ``halo_width``, and 0 on the last one. Without halo it is a copy of x.

    Raises:
        ValueError: (1) on all ranks, before anything is sent, if ``halo_width`` is below 0. (2) If
            the part of a rank with neighbours has fewer than ``halo_width`` rows, on this rank
            **and on its neighbours**, after their messages are done. The rank sends the rows that
            it has, and a neighbour sees that fewer came than it asked for
            (``MPI.Status.Get_count``). All other ranks get their results.

    - Messages: to the ranks before and after alone, at most one to each. No library collectives.
    - Bytes: at most ``B C halo_width W`` elements to each of them, and nothing if ``halo_width``
      is 0. Example: one image of 3 channels, 100 columns, 2 rows of halo in float32: 2400 bytes to
      each neighbour, so a rank between two others sends two messages and 4800 bytes.
    - Time: at most 1.05 times ``alpha + m beta``, where m is what a rank sends to its neighbours
      together; half the points up to 1.5 times. So both directions are under way at once: start
      both receives and both sends before you wait for one of them.
    """
    ### BEGIN SOLUTION
    if halo_width < 0:
        raise ValueError(f"halo_width ({halo_width}) must be at least 0.")
    rank, last = comm.Get_rank(), comm.Get_size() - 1
    prev_rank = rank - 1 if rank > 0 else MPI.PROC_NULL
    next_rank = rank + 1 if rank < last else MPI.PROC_NULL
    return _along(comm, x, halo_width, 2, (prev_rank, next_rank))


def _along(comm, x, halo_width, axis, neighbours):
    """Exchange in one direction; ``neighbours`` are the ranks before and after this one."""
    size = x.shape[axis]
    sent = min(halo_width, size)
    edges = x.take(range(sent), axis), x.take(range(size - sent, size), axis)
    halos, requests = [], []
    for other, edge in zip(neighbours, edges, strict=True):
        there = halo_width if other != MPI.PROC_NULL else 0
        halos.append(np.zeros([*x.shape[:axis], there, *x.shape[axis + 1 :]], x.dtype))
        if there:
            requests.append(comm.Irecv(halos[-1], source=other))
            requests.append(comm.Isend(edge, dest=other))
    states = [MPI.Status() for _ in requests]
    MPI.Request.Waitall(requests, states)
    received = [state.Get_count() for state in states[::2]]
    wanted = [halo.nbytes for halo in halos if halo.size]
    if requests and (size < halo_width or received != wanted):
        raise ValueError(
            f"rank {comm.Get_rank()} has {size} rows or columns and a neighbour may have fewer: "
            f"each part must have at least halo_width ({halo_width}). Use fewer ranks."
        )
    return np.concatenate([halos[0], x, halos[1]], axis)
    ### END SOLUTION


def exchange_grid(
    comm: MPI.Comm, x: np.ndarray, halo_width: int, grid: tuple[int, int]
) -> np.ndarray:
    """The same for images that are cut in both directions, corners included.

        rank 0 | rank 1 | rank 2        grid = (2, 3): rank r has row r // 3, column r % 3
        -------+--------+-------        of the grid
        rank 3 | rank 4 | rank 5

    A window at a part's corner needs elements of the part across the corner. They need no message
    of their own: first exchange columns, then rows that already have the neighbours' columns. So
    rank 4's corner reaches rank 0 by way of rank 1 or rank 3.

    Args:
        x: shape ``(B, C, h, w)``, at least as high and as wide as ``halo_width``. Parts of a row of
            the grid are equally high, parts of a column equally wide.
        grid: ``(rows, columns)`` of ranks; their product is the number of ranks. No argument needs
            to be refused here.

    Returns:
        x with ``halo_width`` rows and columns of all neighbours, those across corners included, and
        nothing beyond the image's edges.

    - Messages: at most one to each of the ranks left, right, above and below. None across a corner.
      No library collectives.
    - Bytes: left and right at most ``B C h halo_width`` elements each, above and below at most
      ``B C halo_width w'`` each, where w' is the width with halo. Example: rank 4 above has 10 x 10
      elements of one channel, float64, and a halo of 1: 80 bytes to rank 3, 80 to rank 5 and 96 to
      rank 1.
    """
    ### BEGIN SOLUTION
    (num_rows, num_columns), rank = grid, comm.Get_rank()
    row, column = divmod(rank, num_columns)
    left = rank - 1 if column > 0 else MPI.PROC_NULL
    right = rank + 1 if column < num_columns - 1 else MPI.PROC_NULL
    above = rank - num_columns if row > 0 else MPI.PROC_NULL
    below = rank + num_columns if row < num_rows - 1 else MPI.PROC_NULL
    wide = _along(comm, x, halo_width, 3, (left, right))
    return _along(comm, wide, halo_width, 2, (above, below))
    ### END SOLUTION
