"""All receives are posted at the beginning, and completed by ``Testsome`` and ``Waitsome``."""

import numpy as np
from model import loss, loss_gradient
from mpi4py import MPI


def run(comm, piece, params, batch_sizes, limit, inputs=None, targets=None):
    rank, last, dtype = comm.Get_rank(), comm.Get_size() - 1, params[0].dtype
    keys, requests, buffers = [], [], []
    for m, samples in enumerate(batch_sizes):
        for kind, source, width in (
            ("F", rank - 1, params[0].shape[0]),
            ("B", rank + 1, params[-1].shape[0]),
        ):
            if 0 <= source <= last:
                keys.append((kind, m))
                buffers.append(np.empty((samples, width), dtype))
                requests.append(comm.Irecv(buffers[-1], source, m))
    there = {("F", m): x for m, x in enumerate(inputs or [])} if rank == 0 else {}
    grads = [np.zeros_like(each) for each in params]
    in_flight, value, saved, sent = 0, 0.0, {}, []
    open_ = 2 * len(batch_sizes)

    def choose():
        backwards = [key for key in there if key[0] == "B"]
        forwards = [key for key in there if key[0] == "F"]
        if backwards:
            return backwards[0]
        return forwards[0] if forwards and (rank or in_flight < limit) else None

    while open_:
        found = MPI.Request.Testsome(requests) if requests else None
        for place in found or ():
            there[keys[place]] = buffers[place]
        key = choose()
        if key is None:
            for place in MPI.Request.Waitsome(requests):
                there[keys[place]] = buffers[place]
            continue
        open_ -= 1
        array, (kind, m) = there.pop(key), key
        if kind == "F":
            in_flight += 1
            y, saved[m] = piece.forward(m, params, array)
            if rank < last:
                sent.append(comm.Isend(y, rank + 1, m))
            else:
                value += loss(y, targets[m]) * batch_sizes[m] / sum(batch_sizes)
                there["B", m] = loss_gradient(y, targets[m]) * (batch_sizes[m] / sum(batch_sizes))
        else:
            in_flight -= 1
            dx, own = piece.backward(m, params, saved.pop(m), array)
            for a, b in zip(grads, own):
                a += b
            if rank > 0:
                sent.append(comm.Isend(dx, rank - 1, m))
    MPI.Request.Waitall(sent)
    return (value if rank == last else None), grads
