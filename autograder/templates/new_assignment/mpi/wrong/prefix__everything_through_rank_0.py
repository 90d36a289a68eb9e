# fails: test_bytes_per_rank
"""Rank 0 collects all vectors and hands out all sums."""

import numpy as np


def prefix_sum(comm, x):
    if comm.Get_rank():
        comm.Send(np.array(x), 0)
        result = np.empty_like(x)
        comm.Recv(result, 0)
        return result
    running = np.array(x)
    for source in range(1, comm.Get_size()):
        part = np.empty_like(running)
        comm.Recv(part, source)
        running += part
        comm.Send(running, source)
    return np.array(x)
