"""Prefix sums: every rank gets the sum of the vectors of all ranks up to its own.

    rank 0 --x0--> rank 1 --x0+x1--> rank 2 --x0+x1+x2--> rank 3

Rules:

- ``comm`` is any mpi4py communicator, of p >= 1 ranks in any order; it need not be
  ``COMM_WORLD``. Use point-to-point calls only, on ``comm`` or on communicators that you make
  from it; no collective, not even ``Barrier``. A rank sends nothing to itself.
- ``x`` is one-dimensional, float32, float64 or int64, of any length n >= 0; length and dtype are
  the same on all ranks. It is never written to.
- The result is a new array of x's dtype. Integers are exact, floats may be added in any order. A
  call keeps nothing for the next one, and completes every send and receive that it starts.
- A send may wait until its receive is posted (rendezvous), whatever its size, and messages of
  different ranks may arrive in any order.
"""

import numpy as np


def prefix_sum(comm, x):
    """Sum ``x`` over the ranks 0 to this one.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``; not modified.

    Returns:
        A new array, shape ``(n,)``: on rank r the sum of ``x`` of the ranks 0, ..., r.

    Bytes: each rank sends and receives at most ``x.nbytes``.
    Time: with long vectors (one takes 100 alpha or more on the wire) at most 1.05 times
    ``(p - 1) (alpha + x.nbytes * beta)`` (half the points up to 1.5 times).
    """
    ### BEGIN SOLUTION
    rank, world_size = comm.Get_rank(), comm.Get_size()
    result = np.array(x)
    if rank > 0:
        before = np.empty_like(result)
        comm.Recv(before, rank - 1)
        result += before
    if rank < world_size - 1:
        comm.Send(result, rank + 1)
    return result
    ### END SOLUTION
