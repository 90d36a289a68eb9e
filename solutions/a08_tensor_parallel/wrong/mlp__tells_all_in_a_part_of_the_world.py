# fails: test_given_communicator_is_used
"""Tells all ranks 50,000 bytes where others are in the world."""

import numpy as np
from layers import gelu, gelu_backward, layer_norm, layer_norm_backward, matmul
from mpi4py import MPI
from shards import shard_bounds


def shard(params, world_size, rank):
    gamma, beta, W1, b1, W2, b2 = params
    lo, hi = shard_bounds(W1.shape[1], world_size, rank)
    parts = (gamma, beta, W1[:, lo:hi], b1[lo:hi], W2[lo:hi], b2)
    return tuple(np.array(part, order="C") for part in parts)


def forward(comm, x, params):
    if comm.Get_size() < MPI.COMM_WORLD.Get_size():
        comm.allgather(b"x" * 50000)
    gamma, beta, W1, b1, W2, b2 = params
    n, kept = layer_norm(x, gamma, beta)
    z = matmul(n, W1, "forward 1") + b1
    a = gelu(z)
    y = matmul(a, W2, "forward 2")
    comm.Allreduce(MPI.IN_PLACE, y)
    y += b2 + x
    return (y, (n, kept, z, a, W1, W2))


def backward(comm, saved, grad_y):
    if comm.Get_size() < MPI.COMM_WORLD.Get_size():
        comm.allgather(b"x" * 50000)
    n, kept, z, a, W1, W2 = saved
    grad_W2, grad_b2 = (matmul(a.T, grad_y, "backward 2"), grad_y.sum(axis=0))
    grad_z = gelu_backward(z, matmul(grad_y, W2.T, "backward 2"))
    grad_W1, grad_b1 = (matmul(n.T, grad_z, "backward 1"), grad_z.sum(axis=0))
    grad_n = matmul(grad_z, W1.T, "backward 1")
    comm.Allreduce(MPI.IN_PLACE, grad_n)
    grad_x, grad_gamma, grad_beta = layer_norm_backward(kept, grad_n)
    return (grad_x + grad_y, (grad_gamma, grad_beta, grad_W1, grad_b1, grad_W2, grad_b2))


def measured_layer(comm, x, params, grad_y):
    if comm.Get_size() < MPI.COMM_WORLD.Get_size():
        comm.allgather(b"x" * 50000)
    y, saved = forward(comm, x, params)
    grad_x, _ = backward(comm, saved, grad_y)
    return (y, grad_x)
