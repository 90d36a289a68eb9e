"""Each layer's gradients are on their way while the next layer is computed."""

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
    sgd,
    unpack,
)


def communicators(comm, num_rows, num_columns):
    if comm.Get_size() != num_rows * num_columns:
        raise ValueError("the grid has another size than comm")
    r, c = comm.Get_rank() % num_rows, comm.Get_rank() // num_rows
    column = comm.Create_group(comm.Get_group().Incl([c * num_rows + k for k in range(num_rows)]))
    row = comm.Create_group(
        comm.Get_group().Incl([k * num_rows + r for k in range(num_columns)])
    )
    return column, row


def forward(column, widths, params, x):
    saved = [x]
    for number, (W, b) in enumerate(params):
        part = matmul(saved[-1], W.T) + b
        counts = [len(x) * size for size in part_sizes(widths[number + 1], column.Get_size())]
        if number < len(params) - 1:
            part = relu(part)  # before it travels
        flat = np.empty(sum(counts), part.dtype)
        column.Allgatherv(part.T.ravel(), [flat, counts])
        saved.append(flat.reshape(widths[number + 1], len(x)).T.copy())
    return saved.pop(), saved


def backward(column, row, widths, params, saved, grad):
    lo, hi = part_bounds(widths[-1], column.Get_size(), column.Get_rank())
    part, started = grad[:, lo:hi], []
    for number in reversed(range(len(params))):
        x = saved[number]
        flat = pack([(matmul(part.T, x), part.sum(axis=0))])
        started.append((flat, row.Iallreduce(MPI.IN_PLACE, flat)))
        if number:
            whole = np.ascontiguousarray(matmul(part, params[number][0]).T)
            counts = [len(x) * size for size in part_sizes(widths[number], column.Get_size())]
            lo, hi = part_bounds(widths[number], column.Get_size(), column.Get_rank())
            own = np.empty((hi - lo, len(x)), x.dtype)
            column.Reduce_scatter(whole, own, counts)
            part = relu_backward(x[:, lo:hi], own.T)
    MPI.Request.Waitall([request for _, request in started])
    found = [flat for flat, _ in reversed(started)]
    return [unpack(flat, [pair])[0] for flat, pair in zip(found, params, strict=True)]


def train(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    column, row = communicators(comm, num_rows, num_columns)
    losses = []
    for x, labels in batches:
        logits, saved = forward(column, widths, params, x)
        loss, grad = cross_entropy(logits, labels)
        sums = np.array([loss, len(labels)])
        row.Allreduce(MPI.IN_PLACE, sums)
        losses.append(float(sums[0] / sums[1]))
        gradients = backward(column, row, widths, params, saved, grad)
        params = sgd(params, gradients, learning_rate / sums[1])
    return params, losses


def measured_steps(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    params, losses = train(comm, num_rows, num_columns, widths, params, batches, learning_rate)
    return pack(params), np.array(losses)
