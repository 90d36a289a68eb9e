"""Samples stand in columns, as in the decks: what is gathered are whole rows, without a copy."""

import numpy as np
from mpi4py import MPI
from train2d_layers import cross_entropy, matmul, pack, part_bounds, part_sizes, unpack


def communicators(comm, num_rows, num_columns):
    if num_rows * num_columns != comm.size:
        raise ValueError(f"{comm.size} ranks for a grid of {num_rows} x {num_columns}")
    return (
        comm.Split(comm.rank // num_rows, comm.rank),
        comm.Split(comm.rank % num_rows, comm.rank),
    )


def forward(column, widths, params, x):
    saved, X = [], np.ascontiguousarray(x.T)
    for (W, b), width in zip(params, widths[1:], strict=True):
        saved.append(X)
        own = matmul(W, X, "forward") + b[:, None]
        Y = np.empty((width, X.shape[1]), own.dtype)
        sizes = np.array(part_sizes(width, column.size)) * X.shape[1]
        column.Allgatherv(own, [Y, sizes.tolist()])
        X = np.maximum(Y, 0)
    return Y.T.copy(), saved


def backward(column, row, widths, params, saved, grad):
    lo, hi = part_bounds(widths[-1], column.size, column.rank)
    D, found = np.ascontiguousarray(grad.T[lo:hi]), []
    for k in range(len(params) - 1, -1, -1):
        found.insert(0, (matmul(D, saved[k].T, "backward"), D.sum(axis=1)))
        if k == 0:
            break
        lo, hi = part_bounds(widths[k], column.size, column.rank)
        own = np.empty((hi - lo, D.shape[1]), D.dtype)
        sizes = np.array(part_sizes(widths[k], column.size)) * D.shape[1]
        column.Reduce_scatter(matmul(params[k][0].T, D, "backward"), own, sizes.tolist())
        D = own * (saved[k][lo:hi] > 0)
    total = np.empty_like(pack(found))
    row.Allreduce(pack(found), total, op=MPI.SUM)
    return unpack(total, found)


def train(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    column, row = communicators(comm, num_rows, num_columns)
    losses = []
    for x, labels in batches:
        logits, saved = forward(column, widths, params, x)
        loss, grad = cross_entropy(logits, labels)
        loss, count = row.allreduce(loss), row.allreduce(len(labels))
        losses.append(loss / count)
        # The gradient of the mean from the start.
        grads = backward(column, row, widths, params, saved, (grad / count).astype(x.dtype))
        rate = x.dtype.type(learning_rate)
        params = [
            (W - rate * dW, b - rate * db)
            for (W, b), (dW, db) in zip(params, grads, strict=True)
        ]
    return params, losses


def measured_steps(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    params, losses = train(comm, num_rows, num_columns, widths, params, batches, learning_rate)
    return pack(params), np.array(losses)
