"""One all-reduce in a step: loss and number of samples travel with the gradients."""

import numpy as np
from mpi4py import MPI
from train2d_layers import (
    cross_entropy,
    matmul,
    pack,
    part_bounds,
    part_sizes,
    relu,
    relu_backward,
    unpack,
)


class Grid:
    """Column and row, and what goes through them."""

    def __init__(self, comm, Pr, Pc):
        if comm.Get_size() != Pr * Pc:
            raise ValueError(f"{comm.Get_size()} ranks, {Pr} x {Pc} wanted")
        self.column, self.row = communicators_of(comm, Pr)


def communicators_of(comm, Pr):
    rank = comm.Get_rank()
    return comm.Split(rank // Pr), comm.Split(rank % Pr)


def communicators(comm, num_rows, num_columns):
    grid = Grid(comm, num_rows, num_columns)
    return grid.column, grid.row


def gathered(column, part, width):
    n = part.shape[0]
    whole = np.empty(n * width, part.dtype)
    counts = [n * size for size in part_sizes(width, column.Get_size())]
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    mpi_type = MPI.DOUBLE if part.dtype == np.float64 else MPI.FLOAT
    column.Allgatherv(part.T.ravel(), [whole, counts, starts, mpi_type])
    return whole.reshape(width, n).T.copy()


def forward(column, widths, params, x):
    saved = []
    for number, (W, b) in enumerate(params):
        saved.append(x)
        x = gathered(column, matmul(x, W.T) + b, widths[number + 1])
        if number + 1 < len(params):
            x = relu(x)
    return x, saved


def own_sums(column, widths, params, saved, grad):
    found, r = [], column.Get_rank()
    lo, hi = part_bounds(widths[-1], column.Get_size(), r)
    part = grad[:, lo:hi]
    for number in range(len(params))[::-1]:
        x = saved[number]
        found.append((matmul(part.T, x), part.sum(axis=0)))
        if number:
            lo, hi = part_bounds(widths[number], column.Get_size(), r)
            own = np.empty((hi - lo, len(x)), x.dtype)
            counts = [len(x) * k for k in part_sizes(widths[number], column.Get_size())]
            summand = np.ascontiguousarray(matmul(part, params[number][0]).T)
            column.Reduce_scatter(summand, own, counts)
            part = relu_backward(x[:, lo:hi], own.T)
    return found[::-1]


def backward(column, row, widths, params, saved, grad):
    flat = pack(own_sums(column, widths, params, saved, grad))
    row.Allreduce(MPI.IN_PLACE, flat)
    return unpack(flat, params)


def train(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    grid, losses = Grid(comm, num_rows, num_columns), []
    for x, labels in batches:
        logits, saved = forward(grid.column, widths, params, x)
        loss, grad = cross_entropy(logits, labels)
        sums = pack(own_sums(grid.column, widths, params, saved, grad))
        sums = np.concatenate([sums, np.array([loss, len(labels)], sums.dtype)])
        grid.row.Allreduce(MPI.IN_PLACE, sums)
        losses.append(float(sums[-2]) / float(sums[-1]))
        rate = sums.dtype.type(learning_rate / float(sums[-1]))
        params = unpack(pack(params) - rate * sums[:-2], params)
    return params, losses


def measured_steps(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    params, losses = train(comm, num_rows, num_columns, widths, params, batches, learning_rate)
    return pack(params), np.array(losses)
