# fails: test_second_call_is_independent
"""On one rank the input itself comes back."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    if world_size == 1:
        return x
    total = np.array(x)  # a contiguous copy
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
