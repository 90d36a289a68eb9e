"""halving_doubling recurses on communicators of half the ranks."""

import numpy as np
from shards import shard_bounds


def recursive_doubling(comm, x):
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


def halving_doubling(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    core = largest_power_of_two(world_size)
    total = np.array(x)  # a contiguous copy
    if not fold(comm, total, core):
        return total

    inside = comm.Create_group(comm.Get_group().Incl(list(range(core)))) if core > 1 else None
    if inside is not None:
        exchange(inside, total)
        inside.Free()
    unfold(comm, total, core)
    return total


def exchange(comm, part):
    """Halve, let the half communicator sum its half, then give it back; p is a power of two."""
    rank, world_size = comm.Get_rank(), comm.Get_size()
    if world_size == 1:
        return
    middle = len(part) // 2
    lower = rank < world_size // 2
    partner = rank + world_size // 2 if lower else rank - world_size // 2
    mine, theirs = (part[:middle], part[middle:]) if lower else (part[middle:], part[:middle])
    incoming = np.empty_like(mine)
    comm.Sendrecv(theirs, partner, recvbuf=incoming, source=partner)
    mine += incoming
    half = comm.Split(0 if lower else 1, rank)
    exchange(half, mine)
    half.Free()
    comm.Sendrecv(mine, partner, recvbuf=theirs, source=partner)


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
