"""The average in two halves, on a vector that is filled up to a multiple of p."""

import numpy as np


def train(comm, params, gradient, num_steps, period, lr):
    if num_steps < 0 or period < 1:
        raise ValueError("num_steps must be at least 0, and period at least 1")
    sizes = [each.size for each in params]
    p = comm.Get_size()
    flat = np.zeros(-(-sum(sizes) // p) * p, params[0].dtype)

    def views():
        parts = np.split(flat[: sum(sizes)], np.cumsum(sizes)[:-1])
        return [part.reshape(each.shape) for part, each in zip(parts, params, strict=True)]

    for view, each in zip(views(), params, strict=True):
        view[...] = each
    for step in range(num_steps):
        for view, g in zip(views(), gradient(views(), step), strict=True):
            view -= lr * g
        if step == num_steps - 1 or step % period == period - 1:
            shard = np.empty(len(flat) // p, flat.dtype)
            comm.Reduce_scatter_block(flat, shard)
            shard /= p
            flat = np.empty_like(flat)
            comm.Allgather(shard, flat)
    return [view.copy() for view in views()]
