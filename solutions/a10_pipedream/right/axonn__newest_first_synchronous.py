"""Of several microbatches the newest comes first; sends are synchronous; it polls and never waits."""

import numpy as np
from model import loss, loss_gradient
from mpi4py import MPI


def run(comm, piece, params, batch_sizes, limit, inputs=None, targets=None):
    rank, last = comm.Get_rank(), comm.Get_size() - 1
    forwards, backwards, saved, sends = [], [], {}, []
    begun, results, value = 0, [], 0.0
    while len(results) < len(batch_sizes):
        for source, rows, stack in (
            (rank + 1, params[-1].shape[0], backwards),
            (rank - 1, params[0].shape[0], forwards),
        ):
            if not 0 <= source <= last:
                continue
            status = MPI.Status()
            while comm.Iprobe(source, MPI.ANY_TAG, status):
                m = status.tag
                array = np.empty((batch_sizes[m], rows), params[0].dtype)
                comm.Recv(array, source, m)
                stack.append((m, array))
        if backwards:
            m, dy = backwards.pop()
            dx, own = piece.backward(m, params, saved.pop(m), dy)
            results.append(own)
            if rank:
                sends.append(comm.Issend(dx, rank - 1, m))
        elif rank == 0 and begun < len(batch_sizes) and len(saved) < limit or forwards:
            m, x = (begun, inputs[begun]) if rank == 0 else forwards.pop()
            y, saved[m] = piece.forward(m, params, x)
            begun += 1
            if rank < last:
                sends.append(comm.Issend(y, rank + 1, m))
            else:
                share = batch_sizes[m] / sum(batch_sizes)
                value += share * loss(y, targets[m])
                backwards.append((m, share * loss_gradient(y, targets[m])))
    for each in sends:
        each.Wait()
    return (value if rank == last else None), [sum(column) for column in zip(*results)]
