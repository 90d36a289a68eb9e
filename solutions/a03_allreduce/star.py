"""All-reduce over a star: rank 0 is the master, and everything goes through it.

    gather and add          send back
    1 --.                   .-> 1
    2 ---> 0        then    0 --> 2
    3 --'                   '-> 3

Rules for every function of this assignment:

- ``comm`` is any mpi4py communicator, of p >= 1 ranks in any order; it need not be
  ``COMM_WORLD``. Use point-to-point calls only, on ``comm`` or on communicators that you make
  from it (``Dup``, ``Split``, ``Create_cart``, ...; at most ``4 + 2 ceil(log2(p))`` in a call,
  which count as no time); no other collective, not even ``Barrier``. A rank sends nothing to
  itself.
- ``x`` is one-dimensional, float32, float64 or int64, of any length n >= 0, contiguous or not;
  length and dtype are the same on all ranks. It is never written to, not even for a moment:
  it may be read-only.
- The result is a new array of x's dtype, writable, that shares memory with nothing. Integers are
  exact, floats may be added in any order. A call keeps nothing for the next one, and completes
  (``Wait``, ``Test``, ...) every send and receive that it starts.
- A send may wait until its receive is posted (rendezvous), whatever its size, and messages of
  different ranks may arrive in any order.
- A transfer may be split into several messages, at most 64 in place of one.
"""

import numpy as np


def all_reduce(comm, x):
    """Sum ``x`` over all ranks; rank 0 is the only one that anybody talks to.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``; not modified.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    Structure: ranks other than 0 exchange messages with rank 0 only.
    Bytes: each of them sends and receives at most ``x.nbytes``; rank 0 sends and receives at
    most ``(p - 1) * x.nbytes``.
    Time: with long vectors (one takes 100 alpha or more on the wire) at most 1.05 times
    ``2 (p - 1) (alpha + x.nbytes * beta)``, the time of blocking calls one after the other
    (half the points up to 1.5 times).
    """
    ### BEGIN SOLUTION
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)  # a contiguous copy
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, world_size):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, world_size):
            comm.Send(total, dest)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    return total
    ### END SOLUTION
