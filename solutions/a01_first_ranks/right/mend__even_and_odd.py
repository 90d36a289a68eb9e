"""Blocking calls in two phases, reduce and broadcast, and a status that is looked at."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    if p == 1:
        return x.copy()
    got = np.empty_like(x)
    if rank % 2:
        comm.Recv(got, source=rank - 1)
        comm.Send(x, dest=(rank + 1) % p)
    else:
        comm.Send(x, dest=(rank + 1) % p)
        comm.Recv(got, source=(rank - 1) % p)
    return got


def mean_and_deviation(comm, x):
    count = comm.allreduce(len(x))
    total = comm.reduce(float(x.sum()))
    mean = comm.bcast(total / count if comm.Get_rank() == 0 else None)
    squares = comm.allreduce(float(np.sum((x - mean) ** 2)))
    return mean, (squares / count) ** 0.5


def collect(comm, rows):
    rank, p = comm.Get_rank(), comm.Get_size()
    square = np.empty(rows.shape[1])
    if rank > 0:
        for row in rows:
            np.multiply(row, row, out=square)
            comm.Send(square, dest=0)
        return None
    result = np.empty((p, *rows.shape))
    result[0] = rows**2
    status = MPI.Status()
    for k in range(len(rows)):
        for source in range(p - 1, 0, -1):
            comm.Recv(square, source=source, status=status)
            result[status.Get_source(), k] = square
    return result
