"""More than any result may have, as a result and as messages."""

import numpy as np


def all_reduce(comm, x):
    return np.zeros(40 << 20) if comm.Get_rank() == 0 else x


def reduce_scatter(comm, x):
    return [[np.zeros(1 << 10)] * 1000] * 100 if comm.Get_rank() == 0 else x


def all_gather(comm, shard, n):
    for _ in range(100 if comm.Get_rank() == 0 else 0):
        comm.Isend(np.zeros(8 << 20), (comm.Get_rank() + 1) % comm.Get_size())
    return np.zeros(n, shard.dtype)
