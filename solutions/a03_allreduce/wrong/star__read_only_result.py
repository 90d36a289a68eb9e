# fails: test_second_call_is_independent
"""A result that its caller can't write to."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, p):
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, p):
            comm.Send(total, dest)
    else:
        comm.Send(total, 0)
        comm.Recv(total, 0)
    total.flags.writeable = False
    return total
