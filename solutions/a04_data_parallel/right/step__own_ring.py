"""A ring of its own; the broadcast goes round it too."""

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
        comm.Sendrecv(out, (rank + 1) % p, recvbuf=incoming, source=(rank - 1) % p)
        if first:
            mine += incoming
        else:
            mine[:] = incoming
    return total


def mean_loss(comm, loss, b):
    parts = comm.allgather((loss * b, b))
    samples = sum(part[1] for part in parts)
    return float(sum(part[0] for part in parts) / samples), samples


def broadcast_parameters(comm, params):
    rank = comm.Get_rank()
    received = [np.array(p, order="C") for p in params]
    for p in received:
        if rank > 0:
            comm.Recv(p, rank - 1)
        if rank + 1 < comm.Get_size():
            comm.Send(p, rank + 1)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    loss, gradients = loss_and_gradients(params, x, y)
    mean, total = mean_loss(comm, loss, len(x))
    flat = flatten(gradients) * len(x)
    gradients = cut(all_reduce(comm, flat) / total, params)
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, mean
