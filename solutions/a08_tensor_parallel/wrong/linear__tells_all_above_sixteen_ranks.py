# fails: test_bytes_of_columns
"""Tells all ranks 50,000 bytes where there are more than sixteen."""

from layers import matmul
from mpi4py import MPI
from shards import shard_bounds


def column_shard(W, b, world_size, rank):
    lo, hi = shard_bounds(W.shape[1], world_size, rank)
    return (W[:, lo:hi].copy(), b[lo:hi].copy())


def row_shard(W, b, world_size, rank):
    lo, hi = shard_bounds(W.shape[0], world_size, rank)
    return (W[lo:hi].copy(), b.copy())


def column_forward(comm, x, W, b):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    return matmul(x, W, "column forward") + b


def column_backward(comm, x, W, grad_y):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    grad_x = matmul(grad_y, W.T, "column backward")
    comm.Allreduce(MPI.IN_PLACE, grad_x)
    return (grad_x, matmul(x.T, grad_y, "column backward"), grad_y.sum(axis=0))


def row_forward(comm, x, W, b):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    y = matmul(x, W, "row forward")
    comm.Allreduce(MPI.IN_PLACE, y)
    return y + b


def row_backward(comm, x, W, grad_y):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    grad_x = matmul(grad_y, W.T, "row backward")
    return (grad_x, matmul(x.T, grad_y, "row backward"), grad_y.sum(axis=0))
