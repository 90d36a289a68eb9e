# fails: test_messages_may_arrive_in_any_order
"""Two messages a rank, received from any source: halves of different ranks get mixed up."""

import numpy as np
from mpi4py import MPI


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    middle = len(total) // 2
    halves = total[:middle], total[middle:]
    if rank == 0:
        for _ in range(1, world_size):
            for half in halves:
                incoming = np.zeros(len(total), total.dtype)
                comm.Recv(incoming, MPI.ANY_SOURCE)
                half += incoming[: len(half)]
        for dest in range(1, world_size):
            comm.Send(total, dest)
    else:
        for half in halves:
            comm.Send(half, 0)
        comm.Recv(total, 0)
    return total
