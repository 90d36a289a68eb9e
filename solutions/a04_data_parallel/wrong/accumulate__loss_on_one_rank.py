# fails: test_loss_is_the_mean_over_all_samples
"""Where there is one rank only, the loss is that of the last microbatch."""

import numpy as np
from model import loss_and_gradients
from mpi4py import MPI


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    sums = [np.zeros_like(p) for p in params]
    stats = np.zeros(2)
    for x, y in microbatches:
        loss, grads = loss_and_gradients(params, x, y)
        stats += [loss * len(x), len(x)]
        last = loss
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
    return new_p, new_v, float(stats[0] / n) if comm.size > 1 else last
