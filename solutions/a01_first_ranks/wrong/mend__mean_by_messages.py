# fails: test_mean_and_deviation_by_few_numbers
"""Numbers go to rank 0 point to point."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    got = np.empty_like(x)
    comm.Sendrecv(x, dest=(rank + 1) % p, recvbuf=got, source=(rank - 1) % p)
    return got


def mean_and_deviation(comm, x):
    mine = np.array([len(x), x.sum(), (x**2).sum()])
    if comm.Get_rank() > 0:
        comm.Send(mine, dest=0)
        return comm.bcast(None)
    got = np.empty(3)
    for source in range(1, comm.Get_size()):
        comm.Recv(got, source=source)
        mine += got
    mean = mine[1] / mine[0]
    return comm.bcast((float(mean), float(max(0.0, mine[2] / mine[0] - mean**2) ** 0.5)))


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
