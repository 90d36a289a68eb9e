"""All-reduce in log2(p) steps: recursive doubling, and recursive halving then doubling.

    recursive doubling, p = 8              halving-doubling, p = 4
    step 0   0-1   2-3   4-5   6-7         halve     0-2 1-3 by n/2, then 0-1 2-3 by n/4
    step 1   0-2   1-3   4-6   5-7         double    0-1 2-3 by n/4, then 0-2 1-3 by n/2
    step 2   0-4   1-5   2-6   3-7
    each exchanges its whole vector        each rank ends the first half with n/p elements

When p is not a power of two, let core be the largest power of two below p. The ranks beyond
it hand their vectors to partners inside before, and get the result after (the fold):

    p = 6:   4 -> 0, 5 -> 1    then 0 1 2 3 as above,    then 0 -> 4, 1 -> 5

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
- A transfer may be split into several messages, at most 64 in place of one, except in
  recursive doubling.

In the bounds below ``steps`` is ``floor(log2(p))`` and ``fold`` is 0 if p is a power of two,
else 1. Which ranks fold, and how, is free within the bounds.
"""

import numpy as np
from shards import shard_bounds


def recursive_doubling(comm, x):
    """Sum ``x`` over all ranks by exchanging whole vectors with ever more distant partners.

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``; not modified.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    Bytes: each rank sends and receives at most ``(steps + fold) * x.nbytes``.
    Messages: each rank sends at most ``steps + fold``; vectors are not split, however long.
    Time: at most 1.05 times ``(steps + 2 fold) (alpha + x.nbytes * beta)`` with long vectors
    (one takes 100 alpha or more on the wire), half the points up to 1.5 times; with short
    ones (less than alpha) at most 2.5 times that, half up to 4 times.
    """
    ### BEGIN SOLUTION
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)  # a contiguous copy
    if not fold(comm, total, core):
        return total
    incoming = np.empty_like(total)
    distance = 1
    while distance < core:
        partner = rank ^ distance
        comm.Sendrecv(total, partner, recvbuf=incoming, source=partner)
        total += incoming
        distance *= 2
    unfold(comm, total, core)
    return total
    ### END SOLUTION


def halving_doubling(comm, x):
    """Sum ``x`` over all ranks by reduce-scatter (halving) and all-gather (doubling).

    Args:
        comm: the ranks that take part; p of them.
        x: shape ``(n,)``; not modified.

    Returns:
        A new array, shape ``(n,)``: on every rank the sum of all ranks' ``x``.

    Bytes: with core = ``2 ** steps``, each rank sends and receives at most
    ``2 (core - 1) * ceil(n / core) + fold * n`` elements.
    Time: with long vectors (1 / p of one takes 100 alpha or more on the wire) at most 1.05
    times ``2 steps alpha + 2 (core - 1) * ceil(n / core) * x.itemsize * beta
    + 2 fold (alpha + x.nbytes * beta)``, half the points up to 1.5 times; where p is a power
    of two, with short vectors (less than alpha) at most 2.5 times that, half up to 4 times.

    Source: Thakur, Rabenseifner, Gropp 2005, section 4 (Rabenseifner's algorithm).
    """
    ### BEGIN SOLUTION
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)  # a contiguous copy
    if not fold(comm, total, core):
        return total

    def shards(first, count):
        """The elements of shards first, ..., first + count - 1, out of core shards."""
        lo, _ = shard_bounds(len(total), core, first)
        _, hi = shard_bounds(len(total), core, first + count - 1)
        return total[lo:hi]

    distance = core // 2
    while distance >= 1:  # this rank answers for 2 * distance shards, and keeps one half
        partner = rank ^ distance
        mine, theirs = rank & -distance, partner & -distance
        incoming = np.empty_like(shards(mine, distance))
        comm.Sendrecv(shards(theirs, distance), partner, recvbuf=incoming, source=partner)
        shards(mine, distance)[:] += incoming
        distance //= 2
    distance = 1
    while distance < core:  # the same exchanges backwards
        partner = rank ^ distance
        mine, theirs = rank & -distance, partner & -distance
        comm.Sendrecv(
            shards(mine, distance), partner, recvbuf=shards(theirs, distance), source=partner
        )
        distance *= 2
    unfold(comm, total, core)
    return total
    ### END SOLUTION


def largest_power_of_two(world_size):
    """The largest power of two that is not above ``world_size``."""
    return 1 << (world_size.bit_length() - 1)


def fold(comm, total, core):
    """Add the vectors of the ranks beyond ``core`` to those inside; is this rank inside?

    A rank outside waits here for the result, in ``total``. This helper and ``unfold`` are
    yours: change or remove them as you like.
    """
    ### BEGIN SOLUTION
    rank, extra = comm.Get_rank(), comm.Get_size() - core
    if rank >= core:
        comm.Send(total, rank - core)
        comm.Recv(total, rank - core)
        return False
    if rank < extra:
        incoming = np.empty_like(total)
        comm.Recv(incoming, rank + core)
        total += incoming
    return True
    ### END SOLUTION


def unfold(comm, total, core):
    """Hand the result to the partner beyond ``core``, if there is one."""
    ### BEGIN SOLUTION
    rank, extra = comm.Get_rank(), comm.Get_size() - core
    if rank < extra:
        comm.Send(total, rank + core)
    ### END SOLUTION
