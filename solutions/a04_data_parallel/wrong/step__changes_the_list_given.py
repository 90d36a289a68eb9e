# fails: test_inputs_stay_as_they_were
"""New arrays, but put into the lists that were given."""

import numpy as np
from model import loss_and_gradients
from mpi4py import MPI


def broadcast_parameters(comm, params):
    out = []
    for p in params:
        buf = np.array(p)
        comm.Bcast(buf, root=0)
        out.append(buf)
    return out


def train_step(comm, params, velocity, x, y, lr, momentum):
    b = len(x)
    loss, grads = loss_and_gradients(params, x, y)
    stats = np.array([loss * b, b], dtype=np.float64)
    comm.Allreduce(MPI.IN_PLACE, stats)
    total = stats[1]
    for i, (p, v, g) in enumerate(zip(list(params), list(velocity), grads)):
        send = np.ascontiguousarray(g * p.dtype.type(b))
        g_all = np.empty_like(send)
        comm.Allreduce(send, g_all)
        g_all /= p.dtype.type(total)
        v = momentum * v + g_all
        velocity[i] = v
        params[i] = p - lr * v
    return list(params), list(velocity), float(stats[0] / total)
