"""The number of all samples is known before the first pass; reduce-scatter and all-gather."""

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


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    samples = comm.allreduce(sum(len(y) for _, y in microbatches))
    flat, mean = np.zeros(sum(p.size for p in params), params[0].dtype), 0.0
    for x, y in reversed(microbatches):
        loss, gradients = loss_and_gradients(params, x, y)
        flat += flatten(gradients) * (len(x) / samples)
        mean += loss * len(x) / samples
    gradients = cut(all_reduce(comm, flat), params)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return tuple(params), tuple(velocity), comm.allreduce(mean)
