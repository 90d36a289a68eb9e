# fails: test_given_communicator_is_used
"""The ranks that fold use COMM_WORLD."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def largest(p):
    return 1 << (p.bit_length() - 1)


def fold(comm, total, core):
    comm = MPI.COMM_WORLD
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
    comm = MPI.COMM_WORLD
    if rank < extra:
        comm.Send(total, rank + core)


def recursive_doubling(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    core = largest(p)
    total = np.array(x)
    if core < p and not fold(comm, total, core):
        return total
    incoming = np.empty_like(total)
    distance = 1
    while distance < core:
        partner = rank ^ distance
        comm.Sendrecv(total, partner, recvbuf=incoming, source=partner)
        total += incoming
        distance *= 2
    if core < p:
        unfold(comm, total, core)
    return total


def halving_doubling(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    core = largest(p)
    total = np.array(x)
    if core < p and not fold(comm, total, core):
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
    if core < p:
        unfold(comm, total, core)
    return total
