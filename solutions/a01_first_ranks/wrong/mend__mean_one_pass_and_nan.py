# fails: test_mean_and_deviation
"""One pass, and the root of what may lie below 0."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    received = np.empty_like(x)
    comm.Sendrecv(x, dest=(rank + 1) % p, recvbuf=received, source=(rank - 1) % p)
    return received


def mean_and_deviation(comm, x):
    n, total, squares = comm.allreduce(np.array([len(x), x.sum(), x @ x]))
    mean = total / n
    return mean, np.sqrt(squares / n - mean**2)


def collect(comm, rows):
    if comm.Get_rank() > 0:
        squares = rows**2  # a row of its own for every message
        MPI.Request.Waitall([comm.Isend(square, dest=0) for square in squares])
        return None
    collected = np.empty((comm.Get_size(), *rows.shape))
    collected[0] = rows**2
    for source, block in enumerate(collected[1:], start=1):
        for square in block:
            comm.Recv(square, source=source)  # from one source they come in order
    return collected
