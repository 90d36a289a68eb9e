# fails: test_sum_on_2_4_and_8_ranks
"""Right on rank 0 only: nothing is sent back."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x)  # a contiguous copy
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, world_size):
            comm.Recv(incoming, source)
            total += incoming
    else:
        comm.Send(total, 0)
    return total
