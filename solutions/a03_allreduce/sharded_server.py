"""All-reduce with a server on every rank: rank i adds up shard i and hands it to all others.

    step k of p - 1, both times:  rank i sends to i + k and receives from i - k

    k = 1   0 -> 1 -> 2 -> 3 -> 0          k = 2   0 <-> 2   1 <-> 3

Each step is a permutation: every rank sends to one and receives from one, so nobody queues.
If all ranks served rank 0 first, then rank 1, ..., they would queue at one port after another.

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
from shards import shard_bounds


def all_reduce(comm, x):
    """Sum ``x`` over all ranks; rank i adds up shard i of ``shard_bounds`` and nothing else.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``; not modified.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    Structure: rank i sends to rank j at most shard j (of its own ``x``) and shard i (summed),
    so at most ``len(shard i) + len(shard j)`` elements.
    Time: with long vectors (a shard takes 100 alpha or more on the wire) at most 1.05 times
    ``2 (p - 1) (alpha + ceil(n / p) * x.itemsize * beta)`` (half the points up to 1.5 times).
    The order of the sends decides: see the picture above.
    """
    ### BEGIN SOLUTION
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)  # a contiguous copy

    def shard(owner):
        lo, hi = shard_bounds(len(total), world_size, owner)
        return total[lo:hi]

    incoming = np.empty_like(shard(rank))
    for step in range(1, world_size):
        dest, source = (rank + step) % world_size, (rank - step) % world_size
        comm.Sendrecv(shard(dest), dest, recvbuf=incoming, source=source)
        shard(rank)[:] += incoming
    for step in range(1, world_size):
        dest, source = (rank + step) % world_size, (rank - step) % world_size
        comm.Sendrecv(shard(rank), dest, recvbuf=shard(source), source=source)
    return total
    ### END SOLUTION
