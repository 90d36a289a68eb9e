"""Ranks average how far they went since the last average, as DiLoCo does."""

import numpy as np
from mpi4py import MPI


def train(comm, params, gradient, num_steps, period, lr):
    if num_steps < 0 or period < 1:
        raise ValueError("num_steps must be at least 0, and period at least 1")
    begun = [np.array(each) for each in params]
    done = 0
    while done < num_steps:
        here = [each.copy() for each in begun]
        for step in range(done, min(done + period, num_steps)):
            here = [w - lr * g for w, g in zip(here, gradient(here, step), strict=True)]
        done += period
        way = np.concatenate([np.ravel(a - b) for a, b in zip(here, begun, strict=True)])
        comm.Allreduce(MPI.IN_PLACE, way)
        way /= comm.Get_size()
        cuts = np.cumsum([each.size for each in begun])[:-1]
        begun = [
            each + part.reshape(each.shape)
            for each, part in zip(begun, np.split(way, cuts), strict=True)
        ]
        begun = [np.asarray(each) for each in begun]
    return begun
