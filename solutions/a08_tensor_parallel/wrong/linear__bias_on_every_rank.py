# fails: test_rows_on_2_4_and_8_ranks
"""The bias is added before the sum: p times."""

import numpy as np
from layers import matmul
from shards import shard_bounds


def all_reduce(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


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
    return all_reduce(comm, matmul(x, W) + b)


def row_backward(comm, x, W, grad_y):
    return matmul(grad_y, W.T), matmul(x.T, grad_y), grad_y.sum(axis=0)
