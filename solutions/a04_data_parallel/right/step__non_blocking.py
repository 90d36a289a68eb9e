"""Iallreduce for each array, all under way at once, results in tuples."""

from mpi4py import MPI
import numpy as np
from model import loss_and_gradients


def broadcast_parameters(comm, params):
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    counts = np.array([0.0, len(x)])
    loss, gradients = loss_and_gradients(params, x, y)
    counts[0] = loss * len(x)
    everybody = np.zeros(2)
    sums = [np.zeros_like(g) for g in gradients]
    weighted = [np.ascontiguousarray(g) * np.asarray(len(x), g.dtype) for g in gradients]
    requests = [comm.Iallreduce(g, s) for g, s in zip(weighted, sums)]
    requests.append(comm.Iallreduce(counts, everybody))
    MPI.Request.Waitall(requests)
    samples = int(everybody[1])
    velocity = tuple(momentum * v + s / samples for v, s in zip(velocity, sums))
    params = tuple(p - lr * v for p, v in zip(params, velocity))
    return params, velocity, everybody[0] / samples
