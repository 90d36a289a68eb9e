"""Three programs that hang or race. Read and run them, then write them anew in mend.py.

    ringside run given/broken.py:collect --ranks 4 -- --rows 3 --n 5

Each may seem to work: with short messages, on two ranks, on most days.
"""

import numpy as np
from mpi4py import MPI


def exchange(comm, x):
    """Pass x on to the next rank of the ring; return the previous rank's."""
    rank, p = comm.Get_rank(), comm.Get_size()
    got = np.empty_like(x)
    comm.Send(x, dest=(rank + 1) % p)
    comm.Recv(got, source=(rank - 1) % p)
    return got


def mean_and_deviation(comm, x):
    """Return mean and standard deviation of the elements of all ranks' x, on every rank."""
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
    """Square the rows of each rank; return the squares of all ranks on rank 0."""
    rank, p = comm.Get_rank(), comm.Get_size()
    square = np.empty(rows.shape[1])
    if rank > 0:
        requests = []
        for row in rows:
            np.multiply(row, row, out=square)
            requests.append(comm.Isend(square, dest=0))
        MPI.Request.Waitall(requests)
        return None
    result = np.empty((p, *rows.shape))
    result[0] = rows**2
    for source in range(1, p):
        for k in range(len(rows)):
            comm.Recv(square, source=MPI.ANY_SOURCE)
            result[source, k] = square
    return result
