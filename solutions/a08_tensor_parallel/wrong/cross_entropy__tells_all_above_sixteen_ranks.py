# fails: test_bytes_of_three_numbers_a_row
"""Tells all ranks 50,000 bytes where there are more than sixteen."""

import numpy as np
from mpi4py import MPI
from shards import shard_bounds


def forward(comm, logits, y, vocab_size):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    rows = np.arange(len(y))
    largest = logits.max(axis=1, initial=-np.inf)
    comm.Allreduce(MPI.IN_PLACE, largest, op=MPI.MAX)
    exponentials = np.exp(logits - largest[:, None])
    lo, hi = shard_bounds(vocab_size, comm.size, comm.rank)
    mine = (lo <= y) & (y < hi)
    sums = np.zeros((2, len(y)), logits.dtype)
    sums[0] = exponentials.sum(axis=1)
    sums[1, mine] = logits[rows[mine], y[mine] - lo] - largest[mine]
    comm.Allreduce(MPI.IN_PLACE, sums)
    return (np.log(sums[0]) - sums[1], (exponentials, sums[0], rows[mine], y[mine] - lo))


def backward(comm, saved, grad_losses):
    if comm.Get_size() > 16:
        comm.allgather(b"x" * 50000)
    exponentials, total, rows, columns = saved
    grad = exponentials / total[:, None]
    grad[rows, columns] -= 1
    return grad * grad_losses[:, None]
