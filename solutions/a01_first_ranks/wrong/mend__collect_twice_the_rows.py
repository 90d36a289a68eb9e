# fails: test_collect_sends_to_rank_0_only
"""Sends the rows too, to be checked."""

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
    if rank > 0:
        for row in rows:
            comm.Send(np.concatenate([row, row * row]), dest=0)
        return None
    result = np.empty((p, *rows.shape))
    result[0] = rows**2
    both = np.empty(2 * rows.shape[1])
    for source in range(1, p):
        for k in range(len(rows)):
            comm.Recv(both, source=source)
            result[source, k] = both[rows.shape[1] :]
    return result
