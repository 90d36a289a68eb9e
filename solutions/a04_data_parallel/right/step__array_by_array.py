"""A call for each array, in the reverse order; samples counted first."""

import numpy as np
from model import loss_and_gradients


def broadcast_parameters(comm, params):
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    samples = comm.allreduce(len(x))
    loss, gradients = loss_and_gradients(params, x, y)
    share = len(x) / samples
    mean = comm.allreduce(loss * share)
    new_params, new_velocity = list(params), list(velocity)
    for k in reversed(range(len(params))):
        g = np.ascontiguousarray(gradients[k]) * params[k].dtype.type(share)
        total = np.zeros_like(g)
        comm.Allreduce(g, total)
        new_velocity[k] = momentum * velocity[k] + total
        new_params[k] = params[k] - lr * new_velocity[k]
    return new_params, new_velocity, mean
