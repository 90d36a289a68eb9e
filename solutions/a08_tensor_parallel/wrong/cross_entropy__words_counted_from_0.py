# fails: test_vocabularies_that_no_rank_number_divides
"""Takes the right word as a column of its own."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x, op=MPI.SUM):
    total = np.empty_like(x)
    comm.Allreduce(x, total, op=op)
    return total


def forward(comm, logits, y, vocab_size):
    lo, hi = shard_bounds(vocab_size, comm.size, comm.rank)
    mine = (lo <= y) & (y < hi)
    rows, columns = np.arange(len(y))[mine], y[mine] % max(1, hi - lo)
    largest = all_reduce(comm, logits.max(axis=1, initial=-np.inf), MPI.MAX)
    shifted = logits - largest[:, None]
    weights = np.exp(shifted)
    total = all_reduce(comm, weights.sum(axis=1))
    right = np.zeros(len(y), logits.dtype)
    right[rows] = shifted[rows, columns]
    right = all_reduce(comm, right)
    return np.log(total) - right, (weights, total, rows, columns)


def backward(comm, saved, grad_losses):
    weights, total, rows, columns = saved
    grad = weights / total[:, None]
    grad[rows, columns] -= 1
    return grad * grad_losses[:, None]
