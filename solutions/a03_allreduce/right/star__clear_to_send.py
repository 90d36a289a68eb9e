"""The master calls each rank with an empty message before it sends."""

import numpy as np


def all_reduce(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    total = np.array(x)
    if rank == 0:
        incoming = np.empty_like(total)
        for source in range(1, p):
            comm.Send(np.empty(0), source, tag=9)
            comm.Recv(incoming, source)
            total += incoming
        for dest in range(1, p):
            comm.Send(total, dest)
    else:
        comm.Recv(np.empty(0), 0, tag=9)
        comm.Send(total, 0)
        comm.Recv(total, 0)
    return total
