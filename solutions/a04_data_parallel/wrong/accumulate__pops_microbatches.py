# fails: test_inputs_stay_as_they_were
"""Empties the list of microbatches that it was given."""

import numpy as np
from model import loss_and_gradients
from mpi4py import MPI


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    sums = [np.zeros_like(p) for p in params]
    stats = np.zeros(2)
    while microbatches:
        x, y = microbatches.pop(0)
        loss, grads = loss_and_gradients(params, x, y)
        stats += [len(x) * loss, len(x)]
        for s, g in zip(sums, grads):
            s += len(x) * g
    comm.Allreduce(MPI.IN_PLACE, stats)
    n = stats[1]
    new_p, new_v = [], []
    for p, v, s in zip(params, velocity, sums):
        comm.Allreduce(MPI.IN_PLACE, s)
        v = momentum * v + s / p.dtype.type(n)
        new_v.append(v)
        new_p.append(p - lr * v)
    return new_p, new_v, float(stats[0] / n)
