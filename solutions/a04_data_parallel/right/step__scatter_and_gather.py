"""Reduce-scatter, then all-gather; each rank scales its own shard."""

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
    p = comm.Get_size()
    sizes = [len(part) for part in np.array_split(x, p)]
    shard = np.empty(sizes[comm.Get_rank()], x.dtype)
    comm.Reduce_scatter(x, shard, sizes)
    total = np.empty_like(x)
    comm.Allgatherv(shard, [total, sizes])
    return total


def broadcast_parameters(comm, params):
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    loss, gradients = loss_and_gradients(params, x, y)
    samples = comm.allreduce(len(x))
    mean = comm.allreduce(loss * len(x)) / samples
    flat = flatten(gradients) * len(x)
    gradients = cut(all_reduce(comm, flat) / samples, params)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, mean
