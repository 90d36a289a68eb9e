# fails: test_sends_may_wait_for_their_receives
"""Sends without elements are never waited for."""

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
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)  # a contiguous copy
    if not fold(comm, total, core):
        return total
    incoming = np.empty_like(total)
    distance = 1
    while distance < core:
        partner = rank ^ distance
        sending = comm.Isend(total, partner)
        comm.Recv(incoming, partner)
        if total.size:
            sending.Wait()
        total += incoming
        distance *= 2
    unfold(comm, total, core)
    return total


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


def largest_power_of_two(world_size):
    """The largest power of two that is not above ``world_size``."""
    return 1 << (world_size.bit_length() - 1)


def fold(comm, total, core):
    """Add the vectors of the ranks beyond ``core`` to those inside; is this rank inside?

    A rank outside waits here for the result, in ``total``. This helper and ``unfold`` are
    yours: change or remove them as you like.
    """
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


def unfold(comm, total, core):
    """Hand the result to the partner beyond ``core``, if there is one."""
    rank, extra = comm.Get_rank(), comm.Get_size() - core
    if rank < extra:
        comm.Send(total, rank + core)
