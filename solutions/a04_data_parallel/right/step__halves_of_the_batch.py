"""Its samples go through the network in two halves; on a duplicate of comm."""

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
    return [p.copy() for p in comm.bcast([np.array(p) for p in params], root=0)]


def train_step(comm, params, velocity, x, y, lr, momentum):
    comm = comm.Dup()
    half = len(x) // 2
    first, gradients_1 = loss_and_gradients(params, x[:half], y[:half])
    second, gradients_2 = loss_and_gradients(params, x[half:], y[half:])
    rest = len(x) - half
    loss = first * half + second * rest
    flat = flatten(gradients_1) * half + flatten(gradients_2) * rest
    comm.Barrier()
    total = all_reduce(comm, np.append(flat, np.array([loss, len(x)], flat.dtype)))
    gradients = cut(total[:-2] / total[-1], params)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    comm.Free()
    return params, velocity, float(total[-2] / total[-1])
