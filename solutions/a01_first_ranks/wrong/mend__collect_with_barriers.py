# fails: test_collect_sends_to_rank_0_only
"""A barrier between the ranks."""

import numpy as np


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
    result = np.empty((p, *rows.shape)) if rank == 0 else None
    if rank == 0:
        result[0] = rows**2
    for source in range(1, p):
        comm.Barrier()
        for k in range(len(rows)):
            if rank == source:
                comm.Send(rows[k] ** 2, dest=0)
            elif rank == 0:
                comm.Recv(result[source, k], source=source)
    return result
