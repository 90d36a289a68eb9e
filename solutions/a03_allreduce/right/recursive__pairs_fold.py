"""Even ranks among the first 2 r fold into their odd neighbours, as MPICH does."""

import numpy as np
from shards import shard_bounds


def recursive_doubling(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)
    place = fold(comm, total, core)
    if place < 0:
        return total
    extra = world_size - core
    rank = place

    def real(place):
        return 2 * place + 1 if place < extra else place + extra

    incoming = np.empty_like(total)
    distance = 1
    while distance < core:
        partner = rank ^ distance
        comm.Sendrecv(total, real(partner), recvbuf=incoming, source=real(partner))
        total += incoming
        distance *= 2
    unfold(comm, total, core)
    return total


def halving_doubling(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)
    place = fold(comm, total, core)
    if place < 0:
        return total
    extra = world_size - core
    rank = place

    def real(place):
        return 2 * place + 1 if place < extra else place + extra


    def shards(first, count):
        lo, _ = shard_bounds(len(total), core, first)
        _, hi = shard_bounds(len(total), core, first + count - 1)
        return total[lo:hi]

    distance = core // 2
    while distance >= 1:  # this rank answers for 2 * distance shards, and keeps one half
        partner = rank ^ distance
        mine, theirs = rank & -distance, partner & -distance
        incoming = np.empty_like(shards(mine, distance))
        comm.Sendrecv(shards(theirs, distance), real(partner), recvbuf=incoming, source=real(partner))
        shards(mine, distance)[:] += incoming
        distance //= 2
    distance = 1
    while distance < core:  # the same exchanges backwards
        partner = rank ^ distance
        mine, theirs = rank & -distance, partner & -distance
        comm.Sendrecv(
            shards(mine, distance),
            real(partner),
            recvbuf=shards(theirs, distance),
            source=real(partner),
        )
        distance *= 2
    unfold(comm, total, core)
    return total


def largest_power_of_two(world_size):
    return 1 << (world_size.bit_length() - 1)


def fold(comm, total, core):
    """The rank's place among the core ones; -1 for those who have already got the result."""
    rank, extra = comm.Get_rank(), comm.Get_size() - core
    if rank >= 2 * extra:
        return rank - extra
    if rank % 2 == 0:
        comm.Send(total, rank + 1)
        comm.Recv(total, rank + 1)
        return -1
    incoming = np.empty_like(total)
    comm.Recv(incoming, rank - 1)
    total += incoming
    return rank // 2


def unfold(comm, total, core):
    rank, extra = comm.Get_rank(), comm.Get_size() - core
    if rank < 2 * extra:
        comm.Send(total, rank - 1)
