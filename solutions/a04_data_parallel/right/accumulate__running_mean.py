"""A running mean over microbatches; a call for each array, in place."""

from mpi4py import MPI
import numpy as np
from model import loss_and_gradients


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    mean, b, loss = [np.zeros_like(p) for p in params], 0, 0.0
    for x, y in microbatches:
        if not len(x):
            continue
        b += len(x)
        new_loss, gradients = loss_and_gradients(params, x, y)
        share = len(x) / b
        loss += share * (new_loss - loss)
        for m, g in zip(mean, gradients):
            m += share * (g - m)
    samples = comm.allreduce(b)
    new_params, new_velocity = [], []
    for m, p, v in zip(mean, params, velocity):
        m *= p.dtype.type(b / samples)
        comm.Allreduce(MPI.IN_PLACE, m)
        new_velocity.append(momentum * v + m)
        new_params.append(p - lr * new_velocity[-1])
    return new_params, new_velocity, comm.allreduce(loss * b) / samples
