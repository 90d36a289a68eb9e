"""A ring of its own."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def all_reduce(comm, x, op=MPI.SUM):
    p, rank = comm.size, comm.rank
    add = np.maximum if op == MPI.MAX else np.add
    parts = [np.array(part) for part in np.array_split(x, p)]
    for step in range(2 * (p - 1)):
        give, take = (rank - step) % p, (rank - step - 1) % p
        got = np.empty_like(parts[take])
        comm.Sendrecv(parts[give], (rank + 1) % p, recvbuf=got, source=(rank - 1) % p)
        parts[take] = add(parts[take], got) if step < p - 1 else got
    return np.concatenate(parts)


def forward(comm, logits, y, vocab_size):
    lo, hi = shard_bounds(vocab_size, comm.size, comm.rank)
    mine = (lo <= y) & (y < hi)
    rows, columns = np.arange(len(y))[mine], y[mine] - lo
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
