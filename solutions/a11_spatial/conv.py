"""A convolution whose images are cut into parts of whole rows, one for each rank.

    forward                                        backward

    1  send edge rows to the neighbours            1  gradients of the outputs at the edges
    2  outputs that need no halo                   2  send what belongs to the neighbours' rows
    3  wait for the halo                           3  the other gradients, dw and db
    4  outputs at the edges                        4  wait; add what the neighbours sent

                 rank 0's rows  |  rank 1's rows
    forward        x x x x x x  |> x                 the neighbour's outputs see my edge rows,
    backward     dx dx dx dx dx <|  dx               so it has a part of their gradient

The backward pass sends the gradient of what was read from a neighbour back to it. Instead you may
fetch the neighbours' rows of dy, as the forward pass fetches those of x; both are right. All
filters are on every rank, so their gradient is a sum over ranks: one all-reduce. The all-reduce and
the messages to neighbours can be under way while the rank computes.

``given.layers.Conv`` is supplied: the passes over some rows (im2col), k odd, zeros left and right.
Above the image's first row and below its last one you add ``pad = k // 2`` rows of zeros.
``halo.py`` isn't needed here: it waits for its messages, and you compute meanwhile.

Begin with stride 1: stride 2 has a test of its own, and all others have stride 1.
"""

import numpy as np
from given.layers import Conv
from mpi4py import MPI


def forward(comm: MPI.Comm, conv: Conv, x: np.ndarray, first_row: int) -> tuple:
    """This rank's rows of the output.

    Output row i of the whole image has its window's centre in row ``i stride`` of the image. It
    belongs to the rank that has this row. With stride 1 these are the rows of x. With stride 2 and
    rows 3 to 7 of the image they are output rows 2 and 3, whose centres are rows 4 and 6.

    Args:
        comm: any communicator; rank r has the rows that follow those of rank r - 1.
        conv: a ``given.layers.Conv``, the same on all ranks; stride 1 or 2.
        x: this rank's rows, shape ``(B, C, h, W)``, h at least ``conv.pad`` and 1. Heights may
            differ from rank to rank.
        first_row: the number of its first row in the whole image; the heights of the ranks before
            it add up to that.

    Returns:
        ``(y, saved)``: shape ``(B, O, rows, ceil(W / stride))``, and whatever ``backward`` needs.

    - Values: those of one rank with the whole image, to 1e-12 in float64 (1e-5 in float32).
    - Passes: each of this rank's output rows is computed in one pass of ``conv.forward``, and no
      other rows. Rows that need no halo are begun before a message is waited for.
    - Messages: to the ranks before and after alone, at most ``B C pad W`` elements to each. Nothing
      is sent if k is 1. No library collectives.
      Example: 2 images of 3 channels and 8 columns, k = 5, float64: 768 bytes to each neighbour.
    - Time: at most 1.05 times the reference's; half the points up to 1.5 times. The reference takes
      the longer of the halo exchange (``alpha + 2 m beta``) and the rows without halo, and then
      the time of the rows with halo.
    """
    ### BEGIN SOLUTION
    (B, C, h, W), pad, s = x.shape, conv.pad, conv.stride
    received, requests = _start(comm, x[:, :, :pad], x[:, :, h - pad :])
    padded = np.zeros((B, C, h + 2 * pad, W), x.dtype)  # row 0 is row first_row - pad
    padded[:, :, pad : pad + h] = x
    first, end = -(-first_row // s), -(-(first_row + h) // s)  # this rank's output rows
    lo, hi = first, end  # those that need no halo
    if received[0] is not None:
        lo = min(end, -(-(first_row + pad) // s))
    if received[1] is not None:
        hi = max(lo, (first_row + h - 1 - pad) // s + 1)
    saved = padded, x.shape, first_row, (first, lo, hi, end)
    interior = conv.forward(_seen(conv, saved, lo, hi), lo)
    MPI.Request.Waitall(requests)
    if received[0] is not None:
        padded[:, :, :pad] = received[0]
    if received[1] is not None:
        padded[:, :, pad + h :] = received[1]
    above = conv.forward(_seen(conv, saved, first, lo), first)
    below = conv.forward(_seen(conv, saved, hi, end), hi)
    return np.concatenate([above, interior, below], axis=2), saved


def _start(comm, top, bottom):
    """Start sending rows up and down; returns where others' rows will be, and all requests."""
    received, requests = [None, None], []
    for side, edge in enumerate((top, bottom)):
        other = comm.Get_rank() + (-1, 1)[side]
        if edge.size and 0 <= other < comm.Get_size():
            received[side] = np.empty(edge.shape, edge.dtype)
            requests.append(comm.Irecv(received[side], source=other))
            requests.append(comm.Isend(np.array(edge, order="C"), dest=other))
    return received, requests


def _seen(conv, saved, start, stop):
    """The rows that the windows of output rows ``start`` to ``stop`` see, as a view."""
    padded, _, first_row, _ = saved
    top = start * conv.stride - first_row
    height = (stop - start - 1) * conv.stride + conv.k if stop > start else 0
    return padded[:, :, top : top + height]
    ### END SOLUTION


def backward(
    comm: MPI.Comm, conv: Conv, saved, dy: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The gradients of this rank's rows, and of the filters and biases that all ranks share.

    Args:
        conv: the one of the forward pass.
        saved: what ``forward`` gave on this rank.
        dy: dL/dy of this rank's output rows. L is one number, a sum over all ranks' outputs.

    Returns:
        ``(dx, dw, db)``: dx has the shape of x, with what the neighbours' outputs add to it. dw and
        db are sums over all ranks, the same on each. Values as in ``forward``.

    - Passes: each of this rank's output rows goes once through ``conv.backward_weight`` and once
      through ``conv.backward_input``, in one pass or several. If you fetch rows of dy, these go
      through ``conv.backward_input``, too.
    - Messages: to the ranks before and after alone, at most ``B max(C, O) pad W`` elements to each,
      be they gradients of x or rows of dy. Nothing is sent if k is 1.
    - Collectives: one all-reduce of dw and db together, blocking or not: ``O C k k + O`` elements.
      Example: 4 filters for 3 channels, k = 5: 304 elements in one call.
    - Time: at most 1.05 times the reference's; half the points up to 1.5 times. The reference
      computes the edges, sends, computes dw and db, starts the all-reduce, computes the remaining
      rows of dx, and waits.
    """
    ### BEGIN SOLUTION
    padded, (_, _, h, W), _, (first, lo, hi, end) = saved
    pad, gradient = conv.pad, np.zeros_like(padded)

    def add(start, stop):
        part = conv.backward_input(dy[:, :, start - first : stop - first], W, start)
        _seen(conv, (gradient, *saved[1:]), start, stop)[...] += part

    add(first, lo)
    add(hi, end)
    received, requests = _start(comm, gradient[:, :, :pad], gradient[:, :, pad + h :])
    dw, db = conv.backward_weight(_seen(conv, saved, first, end), dy, first)
    mine = np.concatenate([dw.ravel(), db])
    total = np.empty_like(mine)
    requests.append(comm.Iallreduce(mine, total))
    add(lo, hi)
    MPI.Request.Waitall(requests)
    dx = gradient[:, :, pad : pad + h].copy()
    if received[0] is not None:
        dx[:, :, :pad] += received[0]
    if received[1] is not None:
        dx[:, :, h - pad :] += received[1]
    return dx, total[: dw.size].reshape(dw.shape), total[dw.size :].copy()
    ### END SOLUTION


def measured_layer(
    comm: MPI.Comm,
    weight: np.ndarray,
    bias: np.ndarray,
    x: np.ndarray,
    first_row: int,
    dy: np.ndarray,
):
    """Both passes as the run on a cluster measures them: supplied, nothing to write.

    Args:
        weight, bias: as ``given.layers.Conv`` takes them.
        x, first_row, dy: this rank's, as ``forward`` and ``backward`` take them.

    Returns:
        ``(y, dx, dw, db)``.
    """
    conv = Conv(weight, bias)
    y, saved = forward(comm, conv, x, first_row)
    return (y, *backward(comm, conv, saved, dy))
