# fails: test_mean_and_deviation
"""The order differs, and ranks without elements leave."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    got = np.empty_like(x)
    comm.Sendrecv(x, dest=(rank + 1) % p, recvbuf=got, source=(rank - 1) % p)
    return got


def mean_and_deviation(comm, x):
    if len(x) == 0:
        return None  # nothing to add
    count = comm.allreduce(len(x))
    if comm.Get_rank() == 0:
        mean = comm.reduce(float(x.sum())) / count
        comm.bcast(mean)
    else:
        mean = comm.bcast(None)
        comm.reduce(float(x.sum()))
    squares = comm.allreduce(float(np.sum((x - mean) ** 2)))
    return mean, (squares / count) ** 0.5


def collect(comm, rows):
    rank, p = comm.Get_rank(), comm.Get_size()
    if rank > 0:
        squares = rows**2  # a row of its own for every message
        MPI.Request.Waitall([comm.Isend(square, dest=0) for square in squares])
        return None
    result = np.empty((p, *rows.shape))
    result[0] = rows**2
    for source in range(1, p):
        for k in range(len(rows)):
            comm.Recv(result[source, k], source=source)  # from one source they come in order
    return result
