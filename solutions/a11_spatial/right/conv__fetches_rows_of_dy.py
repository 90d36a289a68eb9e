"""The backward pass fetches the neighbours' rows of dy, and computes its rows of dx alone."""

import numpy as np
from mpi4py import MPI


def swap(comm, up, down, above_shape, below_shape):
    """Start to send two blocks, and to receive two."""
    rank, last = comm.Get_rank(), comm.Get_size() - 1
    boxes = [np.zeros(above_shape, up.dtype), np.zeros(below_shape, up.dtype)]
    calls = []
    for other, box, block in ((rank - 1, boxes[0], up), (rank + 1, boxes[1], down)):
        if 0 <= other <= last:
            if box.size:
                calls.append(comm.Irecv(box, other))
            if block.size:
                calls.append(comm.Isend(np.ascontiguousarray(block), other))
    return boxes, calls


def forward(comm, conv, x, first_row):
    B, C, h, W = x.shape
    p, s = conv.pad, conv.stride
    first, end = (first_row + s - 1) // s, (first_row + h + s - 1) // s
    halo = (B, C, p, W)
    boxes, calls = swap(comm, x[:, :, :p], x[:, :, h - p :], halo, halo)
    alone = comm.Get_rank() == 0, comm.Get_rank() == comm.Get_size() - 1

    def rows(whole, start, stop):
        top = start * s - first_row
        return conv.forward(whole[:, :, top : top + (stop - start - 1) * s + conv.k], start)

    needs = [
        (not alone[0] and i * s - p < first_row) or (not alone[1] and i * s + p >= first_row + h)
        for i in range(first, end)
    ]
    y = np.empty((B, len(conv.bias), end - first, -(-W // s)), x.dtype)
    free = [first + k for k, halo_needed in enumerate(needs) if not halo_needed]
    whole = np.concatenate([np.zeros(halo, x.dtype), x, np.zeros(halo, x.dtype)], 2)
    if free:
        y[:, :, free[0] - first : free[-1] + 1 - first] = rows(whole, free[0], free[-1] + 1)
    MPI.Request.Waitall(calls)
    whole = np.concatenate([boxes[0], x, boxes[1]], 2)
    middle = (free[0], free[-1] + 1) if free else (end, end)
    for start, stop in ((first, middle[0]), (middle[1], end)):
        if stop > start:
            y[:, :, start - first : stop - first] = rows(whole, start, stop)
    return y, (whole, first_row, h)


def backward(comm, conv, saved, dy):
    whole, first_row, h = saved
    p, s, W = conv.pad, conv.stride, whole.shape[3]
    n = dy.shape[2]
    first, end = -(-first_row // s), -(-(first_row + h) // s)
    # Outputs from which on rows of this rank, or of the one after it, are seen.
    reach_up = -(-(first_row - p) // s)
    reach_down = (first_row + h - 1 + p) // s + 1
    above = first - reach_up if comm.Get_rank() > 0 else 0
    below = reach_down - end if comm.Get_rank() < comm.Get_size() - 1 else 0
    up = min(n, (first_row - 1 + p) // s + 1 - first) if comm.Get_rank() > 0 else 0
    down = min(n, end - -(-(first_row + h - p) // s))
    shapes = [(*dy.shape[:2], rows, dy.shape[3]) for rows in (above, below)]
    boxes, calls = swap(comm, dy[:, :, :up], dy[:, :, n - down :], *shapes)
    top = first * s - first_row
    seen = whole[:, :, top : top + (n - 1) * s + conv.k] if n else whole[:, :, :0]
    dw, db = conv.backward_weight(seen, dy, first)
    flat = np.append(dw, db)
    calls.append(comm.Iallreduce(MPI.IN_PLACE, flat))
    dx = np.zeros((*whole.shape[:2], h + 4 * conv.k, W), dy.dtype)

    def add(block, start):
        part = conv.backward_input(block, W, start)
        place = start * s - p - first_row + 2 * conv.k
        dx[:, :, place : place + part.shape[2]] += part

    add(dy, first)
    MPI.Request.Waitall(calls)
    add(boxes[0], first - above)
    add(boxes[1], end)
    rows = dx[:, :, 2 * conv.k : 2 * conv.k + h]
    return rows.copy(), flat[: dw.size].reshape(dw.shape), flat[dw.size :].copy()
