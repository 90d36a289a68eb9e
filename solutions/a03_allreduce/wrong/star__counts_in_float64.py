# fails: test_dtype_is_kept_and_integers_are_exact
"""Everything is added in float64 and stays so."""

import numpy as np


def all_reduce(comm, x):
    rank, world_size = comm.Get_rank(), comm.Get_size()
    total = np.array(x, dtype="float64")  # a contiguous copy
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
