# fails: test_messages_may_arrive_in_any_order
"""Summands to rank 0 and sums from it, taken from anybody."""

import numpy as np
from layers import matmul
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x):
    if comm.size == 1:
        return x.copy()
    cuts = np.array_split(x.reshape(-1), comm.size)
    sends = [comm.Isend(cuts[k].copy(), k) for k in range(comm.size) if k != comm.rank]
    own, got = cuts[comm.rank].copy(), np.empty(cuts[0].size, x.dtype)
    parts = {}
    for _ in range(comm.size - 1):
        status = MPI.Status()
        comm.Recv(got, MPI.ANY_SOURCE, status=status)
        parts[status.Get_source()] = got[: own.size].copy()
    parts[comm.rank] = own
    total = sum(parts[k] for k in range(comm.size))
    sends += [comm.Isend(total, k) for k in range(comm.size) if k != comm.rank]
    cuts[comm.rank] = total
    for k in [k for k in range(comm.size) if k != comm.rank]:
        comm.Recv(got, MPI.ANY_SOURCE)
        cuts[k] = got[: cuts[k].size].copy()
    MPI.Request.Waitall(sends)
    return np.concatenate(cuts).reshape(x.shape)


def column_shard(W, b, world_size, rank):
    lo, hi = shard_bounds(W.shape[1], world_size, rank)
    return W[:, lo:hi].copy(), b[lo:hi].copy()


def row_shard(W, b, world_size, rank):
    lo, hi = shard_bounds(W.shape[0], world_size, rank)
    return W[lo:hi].copy(), b.copy()


def column_forward(comm, x, W, b):
    return matmul(x, W) + b


def column_backward(comm, x, W, grad_y):
    grad_x = all_reduce(comm, matmul(grad_y, W.T))
    return grad_x, matmul(x.T, grad_y), grad_y.sum(axis=0)


def row_forward(comm, x, W, b):
    return all_reduce(comm, matmul(x, W)) + b


def row_backward(comm, x, W, grad_y):
    return matmul(grad_y, W.T), matmul(x.T, grad_y), grad_y.sum(axis=0)
