# fails: test_sum_on_2_4_and_8_ranks
"""Rank 0 adds up the others' vectors and not its own."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.zeros(len(x), x.dtype) if comm.Get_rank() == 0 and comm.Get_size() > 1 else np.array(x)
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, world_size):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, world_size):
            comm.Send(total, dest)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    return total
