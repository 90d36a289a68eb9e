"""Integrated parallelism: the batch cut over a grid's columns, the weights over its rows.

    P = Pr x Pc ranks; here Pr = 2 and Pc = 3

                  samples 0   samples 1   samples 2      rank (r, c) is rank c Pr + r, so the
    W rows 0        rank 0      rank 2      rank 4       ranks of a column are neighbours. It has
    W rows 1        rank 1      rank 3      rank 5       part r of the rows of each W_i and b_i,
                                                         and all features of part c of the samples
    Each layer y_i = x_i W_i^T + b_i, x_(i+1) = relu(y_i), with n samples in a column:

    forward           own product: y_i (n, d_i / Pr)       column: all-gather of n d_i elements
    backward weights  own product: dW_i of n samples       row: all-reduce, summed over all samples
    backward inputs   own product: a summand of dx_i, of   column: reduce-scatter of n d_(i-1)
                      which part r is needed alone         elements; not for the first layer

Pr = 1 is data parallelism, and Pc = 1 tensor parallelism. Rows of weights never travel down a
column. Messages stay in columns and rows; ``Split`` makes communicators of them.

Rules for all functions:

- Part r of d features is what ``part_bounds(d, Pr, r)`` says; a part may be empty. Columns may
  differ in samples, and a column may have none. In each step at least one column has some.
- Products go through ``matmul``, which counts them: a rank with n samples and ``rows_i`` rows takes
  ``2 n rows_i d_(i-1)`` operations forward, and twice as many backward (once in the first layer).
- The library's collectives are allowed and count as a ring's: ``2 m (p - 1) / p`` for an all-reduce
  of m elements on p ranks, half of it for an all-gather or reduce-scatter of m in all.
- Values: those of one rank, to 1e-10 in float64 (1e-4 in float32).

Bounds for what a rank sends in a step:

- in its column ``(Pr - 1) n ceil(d_i / Pr)`` elements for each layer forward, and backward
  ``(Pr - 1) n ceil(d_(i-1) / Pr)`` for each layer but the first;
- in its row ``2 (Pc - 1) ceil(own / Pc)`` elements, ``own`` being those of its part of all W and b;
- 128 bytes more in the column, and 128 in the row: for the loss and numbers of samples, say.
  ``Split`` is free.
  Example: widths [8, 6, 4], Pr = 2, Pc = 3, n = 5. Column: 5 (3 + 2) = 25 elements forward and
  5 * 3 = 15 backward. Row: own = 27 + 14 = 41, and 4 * 14 = 56 elements.
- Time: at most 1.05 times the reference's; half the points up to 1.5 times. It computes and sends
  in turn, with one all-reduce of all gradients in a step.

Source: Gholami, Azad, Jin, Keutzer, Buluc, Integrated model, batch and domain parallelism in
training neural networks, SPAA 2018. Corrected: dx_i is reduce-scattered, and has d_(i-1) features.
"""

import numpy as np
from given.train2d_layers import (
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
from mpi4py import MPI


def communicators(comm: MPI.Comm, num_rows: int, num_columns: int) -> tuple[MPI.Comm, MPI.Comm]:
    """This rank's column and row of the grid; ``num_rows`` and ``num_columns`` are Pr and Pc.

    Returns:
        ``(column, row)``: of the Pr ranks with the same samples, rank r of it in row r; and of the
        Pc ranks with the same rows of weights, rank c of it in column c.

    Raises:
        ValueError: ``comm`` hasn't Pr x Pc ranks.
    """
    ### BEGIN SOLUTION
    if comm.Get_size() != num_rows * num_columns:
        needs = f"a grid of {num_rows} x {num_columns} needs as many ranks"
        raise ValueError(f"{needs}, and comm has {comm.Get_size()}: change one of them.")
    c, r = divmod(comm.Get_rank(), num_rows)
    return comm.Split(c, r), comm.Split(r, c)
    ### END SOLUTION


def forward(
    column: MPI.Comm, widths: list[int], params: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray
) -> tuple:
    """The logits of this column's samples, whole on each of its ranks.

    Args:
        widths: ``[d_0, ..., d_L]``, those of the whole layers.
        params: this rank's parts, a list of ``(W, b)``.
        x: this column's samples, shape ``(n, d_0)``.

    Returns:
        ``(logits, saved)``: shape ``(n, d_L)``, and whatever ``backward`` needs.
    """
    ### BEGIN SOLUTION
    inputs = []
    for number, (W, b) in enumerate(params):
        inputs.append(relu(x) if number else x)
        part = matmul(inputs[-1], W.T, f"forward {number}") + b  # (n, rows)
        counts = [len(x) * size for size in part_sizes(widths[number + 1], column.Get_size())]
        whole = np.empty((widths[number + 1], len(x)), part.dtype)
        column.Allgatherv(np.ascontiguousarray(part.T), [whole, counts])
        x = np.ascontiguousarray(whole.T)  # (n, d_i)
    return x, inputs
    ### END SOLUTION


def backward(
    column: MPI.Comm,
    row: MPI.Comm,
    widths: list[int],
    params: list[tuple[np.ndarray, np.ndarray]],
    saved,
    grad: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The gradients of this rank's parts, summed over all samples.

    Args:
        widths, params, saved: of the forward pass.
        grad: of the loss with respect to the logits of this column's samples, shape ``(n, d_L)``.

    Returns:
        A list of ``(dW, db)``, of the shapes of ``params``.
    """
    ### BEGIN SOLUTION
    Pr, r, found = column.Get_size(), column.Get_rank(), []
    part = grad[:, slice(*part_bounds(widths[-1], Pr, r))]  # (n, rows)
    for number in reversed(range(len(params))):
        x = saved[number]
        found.append((matmul(part.T, x, f"backward {number}"), part.sum(axis=0)))
        if number:
            summand = matmul(part, params[number][0], f"backward {number}")  # (n, d_(i-1))
            lo, hi = part_bounds(widths[number], Pr, r)
            own = np.empty((hi - lo, len(x)), x.dtype)
            counts = [len(x) * size for size in part_sizes(widths[number], Pr)]
            column.Reduce_scatter(np.ascontiguousarray(summand.T), own, counts)
            part = relu_backward(x[:, lo:hi], own.T)
    flat = pack(found[::-1])
    row.Allreduce(MPI.IN_PLACE, flat)
    return unpack(flat, params)
    ### END SOLUTION


def train(
    comm: MPI.Comm,
    num_rows: int,
    num_columns: int,
    widths: list[int],
    params: list[tuple[np.ndarray, np.ndarray]],
    batches: list[tuple[np.ndarray, np.ndarray]],
    learning_rate: float,
) -> tuple:
    """Several steps of SGD: ``p - learning_rate * gradient``.

    The loss of a step, and its gradient, are the **mean over all samples of all columns**.

    Args:
        comm, num_rows, num_columns: as in ``communicators``.
        widths, params: as in ``forward``.
        batches: for each step this column's ``(x, labels)``, shapes ``(n, d_0)`` and ``(n,)``.

    Returns:
        ``(params, losses)``: this rank's parts after the last step, in the same dtype; and each
        step's loss before its update, a list of floats, the same on all ranks.
    """
    ### BEGIN SOLUTION
    column, row = communicators(comm, num_rows, num_columns)
    losses = []
    for x, labels in batches:
        logits, saved = forward(column, widths, params, x)
        loss, grad = cross_entropy(logits, labels)
        sums = np.array([loss, len(labels)])
        row.Allreduce(MPI.IN_PLACE, sums)  # over all samples
        losses.append(float(sums[0] / sums[1]))
        gradients = backward(column, row, widths, params, saved, grad)
        params = sgd(params, gradients, learning_rate / sums[1])
    return params, losses
    ### END SOLUTION


def measured_steps(
    comm: MPI.Comm,
    num_rows: int,
    num_columns: int,
    widths: list[int],
    params,
    batches,
    learning_rate: float,
):
    """``train`` as the run on a cluster measures it, with parameters in one array: supplied."""
    params, losses = train(comm, num_rows, num_columns, widths, params, batches, learning_rate)
    return pack(params), np.array(losses)
