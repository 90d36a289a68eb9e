"""Sums and products that notice a wrong bit, say where it was, and are right all the same.

    one message of the ring            the product of a (m x k) and b (k x n)

    +-----------------------+---+      +-------------+---+
    | a chunk               | s |      | c           | r |   r = a (b e): the sum of each row of c
    +-----------------------+---+      |      x      | ! |
      s: a checksum of exactly         +-------------+---+
      these bytes                      | t           |       t = (e' a) b: the sum of each column
                                       |      !      |       one wrong element: one row, one column
                                       +-------------+

The network flips at most one bit of one message in a run of ``all_reduce``; the sender keeps what
it had. In a product, one element of one result may be wrong. Nobody gets an error for that: a run
goes on with other numbers.

A checksum of bytes is equal or it isn't, whatever the numbers are. A sum of products isn't: adding
up a row of c rounds in another order than a times the row sums of b, so a tolerance is needed.
"""

from collections.abc import Callable

import numpy as np
from mpi4py import MPI


def all_reduce(comm: MPI.Comm, vector: np.ndarray) -> tuple[np.ndarray, int]:
    """Add up vectors in a ring, although the network may flip a bit of a message.

    Args:
        comm: p ranks.
        vector: shape ``(n,)``, float64. Any n; it may hold NaN and infinities, which must arrive.

    Returns:
        ``(total, sender)``, alike on all ranks: the sum of all vectors, and the rank in ``comm``
        that had sent the message with the wrong bit; -1 where no bit was flipped. Any bit may be
        flipped, also one of a checksum. Then ``total`` is right, and ``sender`` is named, too.

    - A ring: each rank exchanges messages only with the ranks before and after it. Library
      collectives may carry one number of each rank, up to 8 bytes. They are never hit, nor is a
      second message.
    - Bytes: at most ``16 (p - 1) (ceil(n / p) + 2)`` sent by each rank, library collectives counted
      as a ring's. Example: n = 11 on 4 ranks are 240 bytes: 6 messages of 3 elements and a
      checksum, and 48 bytes for all to agree. If a bit was flipped, twice that.
    """
    ### BEGIN SOLUTION
    total, sender = _in_a_ring(comm, vector)
    sender = comm.allreduce(sender, MPI.MAX)
    if sender >= 0:
        total, _ = _in_a_ring(comm, vector)
    return total, sender


def _in_a_ring(comm, vector):
    """The sum, and who has sent this rank a wrong message."""
    p, rank, sender = comm.Get_size(), comm.Get_rank(), -1
    length = -(-len(vector) // p)
    chunks = np.zeros((p, length))
    chunks.reshape(-1)[: len(vector)] = vector
    message, received = np.empty(length + 1), np.empty(length + 1)
    for step in range(2 * (p - 1)):
        message[:-1] = chunks[(rank - step) % p]
        message[-1:] = _checksum(message[:-1])
        comm.Sendrecv(message, (rank + 1) % p, 0, received, (rank - 1) % p, 0)
        if _checksum(received[:-1]).tobytes() != received[-1:].tobytes():
            sender = (rank - 1) % p
        chunk = chunks[(rank - step - 1) % p]
        chunk[:] = chunk + received[:-1] if step < p - 1 else received[:-1]
    return chunks.reshape(-1)[: len(vector)].copy(), sender


def _checksum(chunk):
    """The parity of each of the 64 bits, over all elements."""
    return np.bitwise_xor.reduce(chunk.view(np.uint64), keepdims=True).view(np.float64)
    ### END SOLUTION


def product(
    a: np.ndarray, b: np.ndarray, mul: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, tuple[int, int] | None]:
    """Multiply two matrices by ``mul``, which may give one wrong element, and mend that one.

    Args:
        a: shape ``(m, k)``, float64; b: shape ``(k, n)``. All numbers are finite. m, k and n are
            from 2 to 64.
        mul: ``mul(x, y)`` is the product of x and y, where at most one element is wrong: by at
            least ``1e-10 |a| |b|``, with ``|a| = np.linalg.norm(a)``, or infinite, or NaN. Call it
            once, with a and b, or with up to two rows more at the end of a, and up to two columns
            more at the end of b. A wrong element may then lie in these, too.

    Returns:
        ``(c, place)``. c is the product, shape ``(m, n)``: its elements are those of ``mul``, but
        for the wrong one, which is right to ``1e-12 |a| |b|``. ``place`` is ``(row, column)`` of
        the element that was mended; None where none of c was wrong. Rounding is no error, whatever
        a and b are: where c is far smaller than ``|a| |b|``, too.
    """
    ### BEGIN SOLUTION
    c = mul(a, b).copy()
    allowed = 1e-12 * np.linalg.norm(a) * np.linalg.norm(b)
    with np.errstate(all="ignore"):  # a wrong element may be NaN, or too large for a sum
        rows = ~(np.abs(c.sum(1) - a @ b.sum(1)) <= allowed)
        columns = ~(np.abs(c.sum(0) - a.sum(0) @ b) <= allowed)
    if not rows.any() or not columns.any():
        return c, None
    row, column = int(rows.argmax()), int(columns.argmax())
    c[row, column] = a[row] @ b[:, column]
    return c, (row, column)
    ### END SOLUTION
