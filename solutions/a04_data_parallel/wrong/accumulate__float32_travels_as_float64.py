# fails: test_one_synchronisation_a_step
"""A float32 gradient travels in 8 bytes an element."""

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


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    sums, loss, b = [np.zeros_like(p) for p in params], 0.0, 0
    for x, y in microbatches:
        mean, gradients = loss_and_gradients(params, x, y)
        sums = [s + len(x) * g for s, g in zip(sums, gradients)]
        loss, b = loss + len(x) * mean, b + len(x)
    mean, total = mean_loss(comm, loss / max(b, 1), b)
    gradients = cut(all_reduce(comm, flatten(sums).astype("float64")) / total, params)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, mean
