"""Rings of point-to-point messages instead of the library's collectives."""

import numpy as np
from train2d_layers import (
    cross_entropy,
    matmul,
    pack,
    part_bounds,
    relu,
    relu_backward,
    sgd,
    unpack,
)


def communicators(comm, num_rows, num_columns):
    if comm.Get_size() != num_rows * num_columns:
        raise ValueError("the grid has another size than comm")
    c, r = divmod(comm.Get_rank(), num_rows)
    return comm.Split(color=c, key=r), comm.Split(color=r, key=c)


def bounds(rows, comm):
    p = comm.Get_size()
    return [part_bounds(rows, p, k) for k in range(p)]


def trade(comm, out, into):
    p, rank = comm.Get_size(), comm.Get_rank()
    comm.Sendrecv(out, (rank + 1) % p, recvbuf=into, source=(rank - 1) % p)


def ring_gather(comm, whole):
    """Rows of all ranks: this rank's are there already."""
    p, rank, cuts = comm.Get_size(), comm.Get_rank(), bounds(len(whole), comm)
    for step in range(p - 1):
        (a, b), (c, d) = cuts[(rank - step) % p], cuts[(rank - step - 1) % p]
        trade(comm, whole[a:b], whole[c:d])


def ring_scatter(comm, whole):
    """This rank's rows become sums over all ranks."""
    p, rank, cuts = comm.Get_size(), comm.Get_rank(), bounds(len(whole), comm)
    for step in range(p - 1):
        (a, b), (c, d) = cuts[(rank - step - 1) % p], cuts[(rank - step - 2) % p]
        came = np.empty_like(whole[c:d])
        trade(comm, whole[a:b], came)
        whole[c:d] += came


def forward(column, widths, params, x):
    saved, r = [], column.Get_rank()
    for number, (W, b) in enumerate(params):
        x = relu(x) if number else x
        saved.append(x)
        lo, hi = part_bounds(widths[number + 1], column.Get_size(), r)
        whole = np.empty((widths[number + 1], len(x)), x.dtype)
        whole[lo:hi] = (matmul(x, W.T) + b).T
        ring_gather(column, whole)
        x = np.ascontiguousarray(whole.T)
    return x, saved


def backward(column, row, widths, params, saved, grad):
    Pr, r, found = column.Get_size(), column.Get_rank(), []
    lo, hi = part_bounds(widths[-1], Pr, r)
    part = grad[:, lo:hi]
    for number in reversed(range(len(params))):
        found.append((matmul(part.T, saved[number]), part.sum(axis=0)))
        if number:
            whole = np.ascontiguousarray(matmul(part, params[number][0]).T)
            ring_scatter(column, whole)
            lo, hi = part_bounds(widths[number], Pr, r)
            part = relu_backward(saved[number][:, lo:hi], whole[lo:hi].T)
    flat = pack(found[::-1])
    ring_scatter(row, flat)
    ring_gather(row, flat[:])
    # The ring leaves a rank's own shard summed: rank r has part r.
    return unpack(flat, params)


def train(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    column, row = communicators(comm, num_rows, num_columns)
    losses = []
    for x, labels in batches:
        logits, saved = forward(column, widths, params, x)
        loss, grad = cross_entropy(logits, labels)
        sums = np.array([loss, len(labels)])
        row.Allreduce(sums.copy(), sums)
        losses.append(float(sums[0] / sums[1]))
        gradients = backward(column, row, widths, params, saved, grad)
        params = sgd(params, gradients, learning_rate / sums[1])
    return params, losses


def measured_steps(comm, num_rows, num_columns, widths, params, batches, learning_rate):
    params, losses = train(comm, num_rows, num_columns, widths, params, batches, learning_rate)
    return pack(params), np.array(losses)
