"""An edge is computed when its halo has come, whichever comes first; gradients are summed in place."""

import numpy as np
from mpi4py import MPI


class Part:
    """This rank's rows, their halo, and where its output rows lie among them."""

    def __init__(self, comm, conv, x, first_row):
        self.comm, self.conv, self.shape, self.row = comm, conv, x.shape, first_row
        pad, h = conv.pad, x.shape[2]
        self.rows = np.zeros((*x.shape[:2], h + 2 * pad, x.shape[3]), x.dtype)
        self.own = slice(pad, pad + h)
        self.rows[:, :, self.own] = x
        rank, last = comm.Get_rank(), comm.Get_size() - 1
        self.sides = []  # of each neighbour: rank, its halo's rows, mine next to it
        if pad and rank > 0:
            self.sides.append((rank - 1, slice(0, pad), slice(pad, 2 * pad)))
        if pad and rank < last:
            self.sides.append((rank + 1, slice(pad + h, None), slice(h, pad + h)))
        outputs = range(-(-first_row // conv.stride), -(-(first_row + h) // conv.stride))
        self.start = outputs.start
        self.groups = {}
        for i in outputs:
            top = i * conv.stride - first_row
            up = bool(self.sides) and rank > 0 and top < pad
            down = bool(self.sides) and rank < last and top + conv.k > pad + h
            self.groups.setdefault((up, down), []).append(i)
        self.num_outputs = len(outputs)

    def seen(self, whole, group):
        top = group[0] * self.conv.stride - self.row
        return whole[:, :, top : top + (group[-1] - group[0]) * self.conv.stride + self.conv.k]

    def place(self, group):
        return slice(group[0] - self.start, group[-1] + 1 - self.start)

    def trade(self, blocks):
        """Start to send blocks to the neighbours; the receives come first in the list."""
        boxes = [np.empty_like(block) for block in blocks]
        receives = [self.comm.Irecv(box, side[0]) for box, side in zip(boxes, self.sides)]
        sends = [self.comm.Isend(block, side[0]) for block, side in zip(blocks, self.sides)]
        return boxes, receives, sends


def forward(comm, conv, x, first_row):
    part = Part(comm, conv, x, first_row)
    blocks = [np.array(part.rows[:, :, mine], order="C") for _, _, mine in part.sides]
    boxes, receives, sends = part.trade(blocks)
    width = -(-x.shape[3] // conv.stride)
    y = np.empty((len(x), len(conv.bias), part.num_outputs, width), x.dtype)
    waiting = dict(part.groups)
    there = {side[0]: False for side in part.sides}

    def compute():
        for up, down in list(waiting):
            if (not up or there[comm.Get_rank() - 1]) and (not down or there[comm.Get_rank() + 1]):
                group = waiting.pop((up, down))
                y[:, :, part.place(group)] = conv.forward(part.seen(part.rows, group), group[0])

    compute()
    for _ in part.sides:
        k = MPI.Request.Waitany(receives)
        other, halo, _ = part.sides[k]
        part.rows[:, :, halo] = boxes[k]
        there[other] = True
        compute()
    MPI.Request.Waitall(sends)
    return y, part


def backward(comm, conv, saved, dy):
    part, whole = saved, np.zeros_like(saved.rows)
    for edge in (True, False):
        for key, group in part.groups.items():
            if any(key) == edge:
                found = conv.backward_input(dy[:, :, part.place(group)], part.shape[3], group[0])
                part.seen(whole, group)[...] += found
        if edge:
            blocks = [np.array(whole[:, :, halo], order="C") for _, halo, _ in part.sides]
            boxes, receives, sends = part.trade(blocks)
            rows = list(range(part.start, part.start + part.num_outputs))
            seen = part.seen(part.rows, rows) if rows else part.rows[:, :, :0]
            dw, db = conv.backward_weight(seen, dy, part.start)
            both = np.concatenate([dw, db], axis=None)
            sums = comm.Iallreduce(MPI.IN_PLACE, both)
    for _ in part.sides:
        k = MPI.Request.Waitany(receives)
        whole[:, :, part.sides[k][2]] += boxes[k]
    MPI.Request.Waitall([*sends, sums])
    dx = np.array(whole[:, :, part.own])
    return dx, both[: dw.size].reshape(dw.shape).copy(), both[dw.size :].copy()
