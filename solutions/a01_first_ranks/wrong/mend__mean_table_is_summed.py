# fails: test_mean_and_deviation_by_few_numbers
"""Every rank gives a table with a line for each rank."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    received = np.empty_like(x)
    comm.Sendrecv(x, dest=(rank + 1) % p, recvbuf=received, source=(rank - 1) % p)
    return received


def mean_and_deviation(comm, x):
    table = np.zeros((comm.Get_size(), 2))
    table[comm.Get_rank()] = len(x), x.sum()
    comm.Allreduce(MPI.IN_PLACE, table)
    count, total = table.sum(axis=0)
    mean = total / count
    squares = comm.allreduce(float(np.sum((x - mean) ** 2)))
    return float(mean), float((squares / count) ** 0.5)


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
