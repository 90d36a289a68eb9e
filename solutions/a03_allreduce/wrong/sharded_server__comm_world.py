# fails: test_given_communicator_is_used
"""Talks on COMM_WORLD, whatever communicator it is given."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x):
    comm = MPI.COMM_WORLD
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
