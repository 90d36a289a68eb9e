# fails: test_bytes_of_two_all_reduces
"""Sums the gradient after layer norm too, where it is whole, and divides."""

import numpy as np
from layers import gelu, gelu_backward, layer_norm, layer_norm_backward, matmul
from shards import shard_bounds


def all_reduce(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def shard(params, world_size, rank):
    gamma, beta, W1, b1, W2, b2 = params
    lo, hi = shard_bounds(W1.shape[1], world_size, rank)
    return tuple(np.array(p, order="C") for p in (gamma, beta, W1[:, lo:hi], b1[lo:hi], W2[lo:hi], b2))


def forward(comm, x, params):
    gamma, beta, W1, b1, W2, b2 = params
    n, kept = layer_norm(x, gamma, beta)
    z = matmul(n, W1) + b1
    a = gelu(z)
    y = all_reduce(comm, matmul(a, W2)) + b2 + x
    return y, (n, kept, z, a, W1, W2)


def backward(comm, saved, grad_y):
    n, kept, z, a, W1, W2 = saved
    grad_W2, grad_b2 = matmul(a.T, grad_y), grad_y.sum(axis=0)
    grad_z = gelu_backward(z, matmul(grad_y, W2.T))
    grad_W1, grad_b1 = matmul(n.T, grad_z), grad_z.sum(axis=0)
    grad_n = all_reduce(comm, matmul(grad_z, W1.T))
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    grad_x = (all_reduce(comm, grad_x) / comm.size).astype(grad_x.dtype)
    return grad_x + grad_y, (grad_gamma, grad_beta, grad_W1, grad_b1, grad_W2, grad_b2)
