# fails: test_collect
"""Two buffers in turn, written to again without a wait."""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    rank, p = comm.Get_rank(), comm.Get_size()
    got = np.empty_like(x)
    comm.Sendrecv(x, dest=(rank + 1) % p, recvbuf=got, source=(rank - 1) % p)
    return got


def mean_and_deviation(comm, x):
    count, total = comm.allreduce(np.array([len(x), x.sum()]))
    mean = total / count
    squares = comm.allreduce(float(np.sum((x - mean) ** 2)))
    return float(mean), float((squares / count) ** 0.5)


def collect(comm, rows):
    rank, p = comm.Get_rank(), comm.Get_size()
    if rank > 0:
        buffers, requests = np.empty((2, rows.shape[1])), []
        for k, row in enumerate(rows):
            np.multiply(row, row, out=buffers[k % 2])
            requests.append(comm.Isend(buffers[k % 2], dest=0))
        MPI.Request.Waitall(requests)
        return None
    result = np.empty((p, *rows.shape))
    result[0] = rows**2
    for source in range(1, p):
        for k in range(len(rows)):
            comm.Recv(result[source, k], source=source)  # from one source they come in order
    return result
