# fails: test_recursive_doubling_messages_per_rank
"""recursive_doubling halves vectors above 1 KiB."""

import numpy as np
from shards import shard_bounds


def largest(p):
    return 1 << (p.bit_length() - 1)


def fold(comm, total, core):
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
    rank, extra = comm.Get_rank(), comm.Get_size() - core
    if rank < extra:
        comm.Send(total, rank + core)


def recursive_doubling(comm, x):
    if len(x) * x.itemsize > 1024:
        return halving_doubling(comm, x)
    rank, p = comm.Get_rank(), comm.Get_size()
    core = largest(p)
    total = np.array(x)
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


def halving_doubling(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    core = largest(p)
    total = np.array(x)
    if not fold(comm, total, core):
        return total

    def shards(first, count):
        lo, _ = shard_bounds(len(total), core, first)
        _, hi = shard_bounds(len(total), core, first + count - 1)
        return total[lo:hi]

    distance = core // 2
    while distance >= 1:
        partner = rank ^ distance
        mine, theirs = rank & -distance, partner & -distance
        incoming = np.empty_like(shards(mine, distance))
        comm.Sendrecv(shards(theirs, distance), partner, recvbuf=incoming, source=partner)
        shards(mine, distance)[:] += incoming
        distance //= 2
    distance = 1
    while distance < core:
        partner = rank ^ distance
        mine, theirs = rank & -distance, partner & -distance
        comm.Sendrecv(
            shards(mine, distance), partner, recvbuf=shards(theirs, distance), source=partner
        )
        distance *= 2
    unfold(comm, total, core)
    return total
