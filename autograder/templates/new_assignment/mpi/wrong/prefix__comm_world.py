# fails: test_given_communicator_is_used
"""COMM_WORLD in the place of comm."""

import numpy as np
from mpi4py import MPI


def prefix_sum(comm, x):
    comm = MPI.COMM_WORLD
    rank, world_size = comm.Get_rank(), comm.Get_size()
    result = np.array(x)
    if rank > 0:
        before = np.empty_like(result)
        comm.Recv(before, rank - 1)
        result += before
    if rank < world_size - 1:
        comm.Send(result, rank + 1)
    return result
