# fails: test_bytes_of_two_all_reduces
"""Tells all ranks 50,000 bytes where there are more than sixteen."""

import numpy as np
from layers import attention, attention_backward, layer_norm, layer_norm_backward, matmul
from mpi4py import MPI
from shards import shard_bounds


def shard(params, head_dim, world_size, rank):
    gamma, beta, W, b, V, c = params
    num_heads = len(V) // head_dim
    lo, hi = shard_bounds(num_heads, world_size, rank)
    W = W.reshape(-1, 3, num_heads, head_dim)[:, :, lo:hi].reshape(len(W), -1)
    b = b.reshape(3, num_heads, head_dim)[:, lo:hi].reshape(-1)
    V = V[head_dim * lo : head_dim * hi]
    return tuple(np.array(part, order="C") for part in (gamma, beta, W, b, V, c))


def _heads(columns, head_dim):
    B, T, width = columns.shape
    return columns.reshape(B, T, width // head_dim, head_dim).swapaxes(1, 2)


def _columns(heads):
    B, n, T, head_dim = heads.shape
    return heads.swapaxes(1, 2).reshape(B, T, n * head_dim)


def _rows(x):
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def forward(comm, x, params, head_dim):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    gamma, beta, W, b, V, c = params
    n, kept = layer_norm(x, gamma, beta)
    qkv = matmul(n, W, "forward qkv") + b
    q, k, v = (_heads(each, head_dim) for each in np.split(qkv, 3, axis=-1))
    o, kept_heads = attention(q, k, v)
    o = _columns(o)
    y = matmul(o, V, "forward out")
    comm.Allreduce(MPI.IN_PLACE, y)
    return (y + c + x, (n, kept, kept_heads, o, W, V, head_dim))


def backward(comm, saved, grad_y):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    n, kept, kept_heads, o, W, V, head_dim = saved
    grad_V = matmul(_rows(o).T, _rows(grad_y), "backward out")
    grad_o = matmul(grad_y, V.T, "backward out")
    grads = attention_backward(kept_heads, _heads(grad_o, head_dim))
    grad_qkv = np.concatenate([_columns(each) for each in grads], axis=-1)
    grad_W = matmul(_rows(n).T, _rows(grad_qkv), "backward qkv")
    grad_n = matmul(grad_qkv, W.T, "backward qkv")
    comm.Allreduce(MPI.IN_PLACE, grad_n)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    grad_b, grad_c = (grad_qkv.sum(axis=(0, 1)), grad_y.sum(axis=(0, 1)))
    return (grad_x + grad_y, (grad_gamma, grad_beta, grad_W, grad_b, grad_V, grad_c))
