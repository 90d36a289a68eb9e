"""Objects travel, and the interior is computed in two pieces."""

import numpy as np
from mpi4py import MPI


def near(comm):
    return [r for r in (comm.Get_rank() - 1, comm.Get_rank() + 1) if 0 <= r < comm.Get_size()]


def pieces(conv, x, first_row, others, rank):
    """Output rows that need the rank above, none, and the rank below."""
    h, s, p = x.shape[2], conv.stride, conv.pad
    own = [i for i in range(first_row + h) if first_row <= i * s < first_row + h]
    above = [i for i in own if rank - 1 in others and i * s - p < first_row]
    below = [
        i for i in own if rank + 1 in others and i * s + p >= first_row + h and i not in above
    ]
    return above, [i for i in own if i not in above and i not in below], below


def forward(comm, conv, x, first_row):
    rank, others, p, s = comm.Get_rank(), near(comm) if conv.pad else [], conv.pad, conv.stride
    h = x.shape[2]
    edges = {rank - 1: x[:, :, :p], rank + 1: x[:, :, h - p :]}
    receives = {r: comm.irecv(source=r) for r in others}
    sends = [comm.isend(np.array(edges[r]), dest=r) for r in others]
    padded = np.zeros((*x.shape[:2], h + 2 * p, x.shape[3]), x.dtype)
    padded[:, :, p : p + h] = x
    above, middle, below = pieces(conv, x, first_row, others, rank)

    def compute(rows):
        if not rows:
            return conv.forward(padded[:, :, :0], 0)
        top = rows[0] * s - first_row
        return conv.forward(padded[:, :, top : top + (rows[-1] - rows[0]) * s + conv.k], rows[0])

    half = len(middle) // 2
    inner = [compute(middle[:half]), compute(middle[half:])]
    for r, receive in receives.items():
        rows = slice(0, p) if r < rank else slice(p + h, None)
        padded[:, :, rows] = receive.wait()
    MPI.Request.waitall(sends)
    y = np.concatenate([compute(above), *inner, compute(below)], axis=2)
    return y, {"padded": padded, "rows": (above, middle, below), "x": x.shape, "row": first_row}


def backward(comm, conv, saved, dy):
    padded, (above, middle, below) = saved["padded"], saved["rows"]
    (_, _, h, W), rank, p, s = saved["x"], comm.Get_rank(), conv.pad, conv.stride
    others = near(comm) if p else []
    grad = np.zeros_like(padded)
    own = above + middle + below
    first = own[0] if own else 0

    def add(rows):
        if rows:
            part = conv.backward_input(dy[:, :, rows[0] - first : rows[-1] + 1 - first], W, rows[0])
            top = rows[0] * s - saved["row"]
            grad[:, :, top : top + part.shape[2]] += part

    receives = {r: comm.irecv(source=r) for r in others}
    add(above)
    add(below)
    edges = {rank - 1: grad[:, :, :p], rank + 1: grad[:, :, p + h :]}
    sends = [comm.isend(np.array(edges[r]), dest=r) for r in others]
    top = first * s - saved["row"]
    seen = padded[:, :, top : top + (len(own) - 1) * s + conv.k] if own else padded[:, :, :0]
    dw, db = conv.backward_weight(seen, dy, first)
    joined, summed = np.concatenate((db, dw.reshape(-1))), np.empty(dw.size + db.size, dw.dtype)
    sums = comm.Iallreduce(joined, summed)
    add(middle)
    for r, receive in receives.items():
        came = receive.wait()
        rows = slice(p, 2 * p) if r < rank else slice(h, h + p)
        grad[:, :, rows] += came
    MPI.Request.waitall(sends)
    sums.Wait()
    db, dw = summed[: db.size].copy(), summed[db.size :].reshape(dw.shape).copy()
    return grad[:, :, p : p + h].copy(), dw, db
