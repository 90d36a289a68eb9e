# fails: test_parts_of_the_parameters
"""A contiguous p-th of the columns: the first ranks have all of Q."""

import numpy as np
from layers import attention, attention_backward, layer_norm, layer_norm_backward, matmul
from shards import shard_bounds


def all_reduce(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def heads(columns, k):
    B, T, width = columns.shape
    return columns.reshape(B, T, width // k, k).swapaxes(1, 2)


def joined(each):
    B, n, T, k = each.shape
    return each.swapaxes(1, 2).reshape(B, T, n * k)


def rows(x):
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def shard(params, head_dim, world_size, rank):
    gamma, beta, W, b, V, c = params
    lo, hi = (head_dim * at for at in shard_bounds(len(V) // head_dim, world_size, rank))
    Ws, bs = [W[:, 3 * lo : 3 * hi]], [b[3 * lo : 3 * hi]]
    parts = gamma, beta, np.concatenate(Ws, axis=1), np.concatenate(bs), V[lo:hi], c
    return tuple(np.array(part, order="C") for part in parts)


def forward(comm, x, params, head_dim):
    gamma, beta, W, b, V, c = params
    n, kept = layer_norm(x, gamma, beta)
    q, k, v = (heads(each, head_dim) for each in np.split(matmul(n, W) + b, 3, axis=-1))
    o, inner = attention(q, k, v)
    o = joined(o)
    y = all_reduce(comm, matmul(o, V)) + c + x
    return y, (n, kept, inner, o, W, V, head_dim)


def backward(comm, saved, grad_y):
    n, kept, inner, o, W, V, head_dim = saved
    grad_V = matmul(rows(o).T, rows(grad_y))
    grads = attention_backward(inner, heads(matmul(grad_y, V.T), head_dim))
    grad_qkv = np.concatenate([joined(each) for each in grads], axis=-1)
    grad_W = matmul(rows(n).T, rows(grad_qkv))
    grad_n = all_reduce(comm, matmul(grad_qkv, W.T))
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    grad_b, grad_c = rows(grad_qkv).sum(axis=0), rows(grad_y).sum(axis=0)
    return grad_x + grad_y, (grad_gamma, grad_beta, grad_W, grad_b, grad_V, grad_c)
