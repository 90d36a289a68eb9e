# fails: test_second_call_is_independent
"""The velocity lives in the module; the given one counts at the first call only."""

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


KEPT = {}


def broadcast_parameters(comm, params):
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    loss, gradients = loss_and_gradients(params, x, y)
    mean, total = mean_loss(comm, loss, len(x))
    flat = flatten(gradients) * len(x)
    gradients = cut(all_reduce(comm, flat) / total, params)
    kept = KEPT.setdefault(tuple(p.shape for p in params), velocity)
    params, velocity = update(params, kept, gradients, lr, momentum)
    KEPT[tuple(p.shape for p in params)] = velocity
    return params, velocity, mean
