"""A loop over periods, and in it one over steps."""

import numpy as np
from mpi4py import MPI


def train(comm, params, gradient, num_steps, period, lr):
    if num_steps < 0 or period < 1:
        raise ValueError("num_steps must be at least 0, and period at least 1")
    own = [np.copy(each) for each in params]
    for first in range(0, num_steps, period):
        for step in range(first, min(num_steps, first + period)):
            for each, g in zip(own, gradient(own, step), strict=True):
                each -= lr * g
        whole = np.concatenate([each.reshape(-1) for each in own])
        total = np.empty_like(whole)
        comm.Allreduce(whole, total, op=MPI.SUM)
        at = 0
        for each in own:
            each[...] = total[at : at + each.size].reshape(each.shape) / comm.size
            at += each.size
    return own
