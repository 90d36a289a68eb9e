"""Every rank waits for a message that nobody sends."""

import numpy as np


def all_reduce(comm, x):
    incoming = np.empty_like(x)
    comm.Recv(incoming, (comm.Get_rank() - 1) % comm.Get_size())
    return incoming


def reduce_scatter(comm, x):
    comm.Ssend(x, (comm.Get_rank() + 1) % comm.Get_size())
    return x.copy()


def all_gather(comm, shard, n):
    request = comm.Irecv(np.empty(n, shard.dtype), comm.Get_rank())
    while not request.Test():
        pass
    return shard
