# fails: test_collect_sends_to_rank_0_only
"""The library's gather."""

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
    parts = comm.gather(rows**2)
    return None if parts is None else np.array(parts)
