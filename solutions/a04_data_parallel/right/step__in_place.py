"""IN_PLACE, scaled before the sum, on one flat vector with loss and count in front."""

from mpi4py import MPI
import numpy as np
from model import loss_and_gradients


def broadcast_parameters(comm, params):
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    loss, gradients = loss_and_gradients(params, x, y)
    b = len(x)
    flat = np.hstack([b, b * loss, *(b * g.ravel() for g in gradients)]).astype(params[0].dtype)
    comm.Allreduce(MPI.IN_PLACE, flat, op=MPI.SUM)
    g = flat[2:] / flat[0]
    v = momentum * np.hstack([v.ravel() for v in velocity]) + g
    p = np.hstack([p.ravel() for p in params]) - lr * v
    ends = np.cumsum([each.size for each in params])[:-1]
    shapes = [each.shape for each in params]
    views = [[part.reshape(s) for part, s in zip(np.split(all_, ends), shapes)] for all_ in (p, v)]
    return views[0], views[1], float(flat[1] / flat[0])
