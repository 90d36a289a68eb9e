# fails: test_messages_may_arrive_in_any_order
"""Takes shards from any source without asking whose they are."""

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
    parts = np.array_split(x, p)
    total = parts[rank].copy()
    requests = [comm.Isend(parts[d], d) for d in range(p) if d != rank]
    for _ in range(p - 1):
        incoming = np.empty_like(total)
        comm.Recv(incoming)
        total += incoming
    requests += [comm.Isend(total, d, tag=1) for d in range(p) if d != rank]
    result = np.empty_like(x)
    places = np.array_split(result, p)
    places[rank][:] = total
    for source in range(p):
        if source != rank:
            comm.Recv(places[source], tag=1)
    for request in requests:
        request.Wait()
    return result


def mean_loss(comm, loss, b):
    parts = comm.allgather((loss * b, b))
    samples = sum(part[1] for part in parts)
    return float(sum(part[0] for part in parts) / samples), samples


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
    params, velocity = update(params, velocity, gradients, lr, momentum)
    return params, velocity, mean
