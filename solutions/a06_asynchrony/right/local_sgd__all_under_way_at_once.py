"""One all-reduce for each array, all of them under way together; divided before."""

import numpy as np
from mpi4py import MPI


def train(comm, params, gradient, num_steps, period, lr):
    if num_steps < 0 or period < 1:
        raise ValueError("num_steps must be at least 0, and period at least 1")
    mine = [np.array(each) for each in params]
    left = period
    for step in range(num_steps):
        mine = [np.asarray(w - lr * g) for w, g in zip(mine, gradient(mine, step), strict=True)]
        left -= 1
        if left and step + 1 < num_steps:
            continue
        left = period
        mine = [np.asarray(w / comm.Get_size()) for w in mine]
        MPI.Request.Waitall([comm.Iallreduce(MPI.IN_PLACE, w) for w in mine])
    return mine
