# fails: test_each_rank_multiplies_its_own_part
"""Multiplies by a matrix of the whole width, zero outside its part."""

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
    widths = comm.allgather(W.shape[1])
    lo = sum(widths[: comm.rank])
    padded = np.zeros((W.shape[0], sum(widths)), W.dtype)
    padded[:, lo : lo + W.shape[1]] = W
    return matmul(x, padded)[:, lo : lo + W.shape[1]] + b


def column_backward(comm, x, W, grad_y):
    grad_x = all_reduce(comm, matmul(grad_y, W.T))
    return grad_x, matmul(x.T, grad_y), grad_y.sum(axis=0)


def row_forward(comm, x, W, b):
    return all_reduce(comm, matmul(x, W)) + b


def row_backward(comm, x, W, grad_y):
    return matmul(grad_y, W.T), matmul(x.T, grad_y), grad_y.sum(axis=0)
