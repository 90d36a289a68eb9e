# fails: test_exchange_sends_to_the_next_rank_only
"""Both neighbours get the vector."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    got, other = np.empty_like(x), np.empty_like(x)
    right, left = (rank + 1) % p, (rank - 1) % p
    comm.Sendrecv(x, dest=right, sendtag=1, recvbuf=got, source=left, recvtag=1)
    comm.Sendrecv(x, dest=left, sendtag=2, recvbuf=other, source=right, recvtag=2)
    return got


def mean_and_deviation(comm, x):
    count, total = comm.allreduce(np.array([len(x), x.sum()]))
    mean = total / count
    squares = comm.allreduce(float(np.sum((x - mean) ** 2)))
    return float(mean), float((squares / count) ** 0.5)


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
