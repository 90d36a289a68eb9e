"""Lower-case calls; rows carry their number."""

import numpy as np


def exchange(comm, x):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    return comm.sendrecv(x, dest=right, source=left)


def mean_and_deviation(comm, x):
    parts = comm.allgather((len(x), float(x.sum())))
    count = sum(n for n, _ in parts)
    mean = sum(s for _, s in parts) / count
    return mean, (sum(comm.allgather(float(((x - mean) ** 2).sum()))) / count) ** 0.5


def collect(comm, rows):
    if comm.rank > 0:
        for k, row in enumerate(rows):
            comm.send((comm.rank, k, row**2), dest=0)
        return None
    result = np.empty((comm.size, *rows.shape))
    result[0] = rows**2
    for r in range(comm.size - 1, 0, -1):
        for _ in rows:
            source, k, square = comm.recv(source=r)
            result[source, k] = square
    return result
