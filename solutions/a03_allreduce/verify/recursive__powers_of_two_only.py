# fails: test_recursive_doubling_on_3_5_6_and_7_ranks
# earns: 65 to 85
"""No fold: partners beyond the last rank are skipped."""

import numpy as np
from given.shards import shard_bounds


def recursive_doubling(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = world_size
    total = np.array(x)
    incoming = np.empty_like(total)
    distance = 1
    while distance < core:
        partner = rank ^ distance
        distance *= 2
        if partner >= world_size:
            continue
        comm.Sendrecv(total, partner, recvbuf=incoming, source=partner)
        total += incoming
    unfold(comm, total, core)
    return total


def halving_doubling(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)  # a contiguous copy
    if not fold(comm, total, core):
        return total

    def shards(first, count):
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
    return 1 << (world_size.bit_length() - 1)


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
