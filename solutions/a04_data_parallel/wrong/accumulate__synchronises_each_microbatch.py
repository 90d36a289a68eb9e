# fails: test_one_synchronisation_a_step
"""An all-reduce for each microbatch, as many as the rank that has most."""

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
    for k in range(max(comm.allgather(len(microbatches)))):
        part = [np.zeros_like(p) for p in params]
        if k < len(microbatches):
            x, y = microbatches[k]
            mean, gradients = loss_and_gradients(params, x, y)
            part = [len(x) * g for g in gradients]
            loss, b = loss + len(x) * mean, b + len(x)
        sums = [s + g for s, g in zip(sums, cut(all_reduce(comm, flatten(part)), params))]
    mean, total = mean_loss(comm, loss / max(b, 1), b)
    gradients = [(s / total).astype(p.dtype) for s, p in zip(sums, params)]
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, mean
