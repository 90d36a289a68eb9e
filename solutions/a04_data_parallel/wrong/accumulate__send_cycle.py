# fails: test_sends_may_wait_for_their_receives
"""A ring of its own in which all send first."""

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
    p, rank = comm.Get_size(), comm.Get_rank()
    total = x.copy()
    parts = np.array_split(total, p)
    for step in range(2 * (p - 1)):
        first = step < p - 1
        out, mine = parts[(rank - step) % p], parts[(rank - step - 1) % p]
        if not first:
            out, mine = parts[(rank + 1 - step + p - 1) % p], parts[(rank - step + p - 1) % p]
        incoming = np.empty_like(mine)
        comm.Send(out, (rank + 1) % p)
        comm.Recv(incoming, (rank - 1) % p)
        if first:
            mine += incoming
        else:
            mine[:] = incoming
    return total


def mean_loss(comm, loss, b):
    parts = comm.allgather((loss * b, b))
    samples = sum(part[1] for part in parts)
    return float(sum(part[0] for part in parts) / samples), samples


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    sums, loss, b = [np.zeros_like(p) for p in params], 0.0, 0
    for x, y in microbatches:
        mean, gradients = loss_and_gradients(params, x, y)
        sums = [s + len(x) * g for s, g in zip(sums, gradients)]
        loss, b = loss + len(x) * mean, b + len(x)
    mean, total = mean_loss(comm, loss / max(b, 1), b)
    gradients = cut(all_reduce(comm, flatten(sums)) / total, params)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, mean
