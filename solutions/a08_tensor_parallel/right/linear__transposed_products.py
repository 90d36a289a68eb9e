"""Every product is computed transposed; parts by fancy indices."""

import numpy as np
from layers import matmul
from shards import shard_bounds


def all_reduce(comm, x):
    x = np.ascontiguousarray(x)
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def column_shard(W, b, world_size, rank):
    lo, hi = shard_bounds(W.shape[1], world_size, rank)
    return np.ascontiguousarray(W[:, np.arange(lo, hi)]), b[lo:hi].copy()


def row_shard(W, b, world_size, rank):
    lo, hi = shard_bounds(W.shape[0], world_size, rank)
    return W[lo:hi].copy(), b.copy()


def column_forward(comm, x, W, b):
    return matmul(W.T, x.T).T + b


def column_backward(comm, x, W, grad_y):
    grad_x = all_reduce(comm, matmul(grad_y, W.T))
    return grad_x, matmul(grad_y.T, x).T, grad_y.sum(axis=0)


def row_forward(comm, x, W, b):
    return all_reduce(comm, matmul(W.T, x.T).T) + b


def row_backward(comm, x, W, grad_y):
    return matmul(grad_y, W.T), matmul(grad_y.T, x).T, grad_y.sum(axis=0)
