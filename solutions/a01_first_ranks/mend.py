"""Three programs that hang or race, mended: the broken ones stand in ``given/broken.py``.

Rules for every function:

- What is computed stays as it was, and so does the way in which the program talks: point-to-point
  calls where the broken program makes them, collectives where it makes them. No communicator is
  made. The docstrings say how much may be sent.
- A send may wait until its receive is posted (rendezvous), whatever its size, and messages of
  different ranks may arrive in any order. A rank may be in its next call already while another one
  is still in this one.
- A buffer isn't written to while a send from it is in flight, nor looked at while a receive into
  it is.
"""

import numpy as np
from mpi4py import MPI


def exchange(comm: MPI.Comm, x: np.ndarray) -> np.ndarray:
    """Pass ``x`` on to the next rank of the ring, and return the previous rank's.

    Args:
        comm: the ranks; rank r's next one is ``(r + 1) % p``.
        x: shape ``(n,)``, n >= 0, float64, contiguous, of the same length on all ranks.

    Returns:
        A new array, shape ``(n,)``: the ``x`` of rank ``(r - 1) % p``. With p = 1 that is a copy
        of its own.

    Bounds, with the numbers for 1000 elements on ``textbook`` (alpha = 1e-6 s, beta = 1e-9 s a
    byte):

    - Messages: point-to-point calls only, each rank to its next one only, together at most
      ``x.nbytes`` (8000 bytes). With p = 1 a rank may send to itself, or not send at all.
    - Time: at most ``3 (alpha + x.nbytes * beta)`` (27 µs), however many ranks there are; half the
      points up to twice as much.
    """
    ### BEGIN SOLUTION
    rank, p = comm.Get_rank(), comm.Get_size()
    received = np.empty_like(x)
    comm.Sendrecv(x, dest=(rank + 1) % p, recvbuf=received, source=(rank - 1) % p)
    return received
    ### END SOLUTION


def mean_and_deviation(comm: MPI.Comm, x: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation of the elements of all ranks' ``x`` together.

    Args:
        comm: the ranks.
        x: shape ``(n,)``, float64; n differs from rank to rank, and may be 0. Some rank has an
            element.

    Returns:
        ``(mean, deviation)`` on every rank, two floats: the deviation is the root of the mean
        squared distance from the mean, ``numpy.std``. Right to nine digits where the elements
        are of the order of their deviation. If all elements equal a, any deviation from 0 to
        1e-5 ``|a|`` is right; NaN is not.

    Messages: collectives only, at most four of them. To each, a rank gives at most three numbers
    (24 bytes), however long its ``x`` is. Up to 64 bytes more are free, such as the keys of a
    dictionary of these numbers.
    """
    ### BEGIN SOLUTION
    count, total = comm.allreduce(np.array([len(x), x.sum()]))
    mean = total / count
    squares = comm.allreduce(float(np.sum((x - mean) ** 2)))
    return float(mean), float((squares / count) ** 0.5)
    ### END SOLUTION


def collect(comm: MPI.Comm, rows: np.ndarray) -> np.ndarray | None:
    """Square the rows of every rank, and bring the squares to rank 0.

    Args:
        comm: the ranks.
        rows: shape ``(m, width)``, float64, contiguous; m >= 0 and width >= 0 are the same on all
            ranks.

    Returns:
        On rank 0 a new array, shape ``(p, m, width)``: element ``[r, k]`` is row k of rank r, each
        number squared. None on all others.

    Bounds, with the numbers for p = 4, m = 5 and width = 100 on ``textbook``:

    - Messages: point-to-point calls only, to rank 0 only, which sends nothing; together at most
      ``rows.nbytes`` from each rank (4000 bytes). Rank 0 may take them in any order.
    - Time: ``(p - 1) m (alpha + 8 width beta)``, the rows' messages one after the other (27 µs).
    """
    ### BEGIN SOLUTION
    if comm.Get_rank() > 0:
        squares = rows**2  # a row of its own for every message
        MPI.Request.Waitall([comm.Isend(square, dest=0) for square in squares])
        return None
    collected = np.empty((comm.Get_size(), *rows.shape))
    collected[0] = rows**2
    for source, block in enumerate(collected[1:], start=1):
        for square in block:
            comm.Recv(square, source=source)  # from one source they come in order
    return collected
    ### END SOLUTION
