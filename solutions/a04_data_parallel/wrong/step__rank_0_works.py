# fails: test_each_rank_works_on_its_own_samples
"""Rank 0 takes all samples, and broadcasts the gradient."""

import numpy as np
from model import loss_and_gradients


def flatten(arrays):
    return np.concatenate([a.ravel() for a in arrays])


def cut(flat, like):
    parts, at = [], 0
    for a in like:
        parts.append(flat[at : at + a.size].reshape(a.shape).astype(a.dtype))
        at += a.size
    return parts


def update(params, velocity, gradients, lr, momentum):
    velocity = [momentum * v + g for v, g in zip(velocity, gradients)]
    return [p - lr * v for p, v in zip(params, velocity)], velocity


def all_reduce(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total


def mean_loss(comm, loss, b):
    pair = all_reduce(comm, np.array([loss * b, b], dtype="float64"))
    return float(pair[0] / pair[1]), pair[1]


def broadcast_parameters(comm, params):
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    parts = comm.gather((x, y), root=0)
    gradients, loss = [np.zeros_like(p) for p in params], 0.0
    if comm.Get_rank() == 0:
        x, y = (np.concatenate(part) for part in zip(*parts))
        loss, gradients = loss_and_gradients(params, x, y)
    gradients, loss = comm.bcast((gradients, loss), root=0)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, loss
