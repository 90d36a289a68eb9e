"""Steps from a generator, objects up, persistent requests down, an empty message first."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def steps(comm, first):
    rank, p = comm.rank, comm.size
    for k in range(p - 1):
        yield (rank + first - k) % p, (rank + first - k - 1) % p


def hello(comm):
    if comm.size > 1:
        comm.Sendrecv(
            b"", (comm.rank + 1) % comm.size, 99, bytearray(), (comm.rank - 1) % comm.size, 99
        )


def reduce_scatter(comm, x):
    hello(comm)
    parts = {
        k: x[lo:hi].copy()
        for k in range(comm.size)
        for lo, hi in [shard_bounds(len(x), comm.size, k)]
    }
    for out, into in steps(comm, -1):
        put = comm.isend(parts[out], dest=(comm.rank + 1) % comm.size)
        parts[into] += comm.recv(source=(comm.rank - 1) % comm.size)
        put.wait()
    return parts[comm.rank]


def all_gather(comm, shard, n):
    cart = comm.Create_cart([comm.size], periods=[True], reorder=False)
    back, ahead = cart.Shift(0, 1)
    whole = np.zeros(n, shard.dtype)
    bounds = [shard_bounds(n, comm.size, k) for k in range(comm.size)]
    whole[slice(*bounds[comm.rank])] = shard
    for out, into in steps(comm, 0):
        put = cart.Send_init(whole[slice(*bounds[out])], ahead)
        get = cart.Recv_init(whole[slice(*bounds[into])], back)
        MPI.Prequest.Startall([get, put])
        MPI.Request.Waitall([get, put])
        put.Free()
        get.Free()
    cart.Free()
    return whole


def all_reduce(comm, x):
    return all_gather(comm, reduce_scatter(comm, x), len(x))
