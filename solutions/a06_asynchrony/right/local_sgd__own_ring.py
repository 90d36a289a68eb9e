"""The average goes round a ring of its own: reduce-scatter, then all-gather."""

import numpy as np


def train(comm, params, gradient, num_steps, period, lr):
    if num_steps < 0 or period < 1:
        raise ValueError("num_steps must be at least 0, and period at least 1")
    params = [np.array(each) for each in params]
    for step in range(num_steps):
        params = [w - lr * g for w, g in zip(params, gradient(params, step), strict=True)]
        if (step + 1) % period and step + 1 < num_steps:
            continue
        flat = np.concatenate([np.ravel(each) for each in params])
        ring(comm, flat)
        parts = np.split(flat, np.cumsum([np.size(each) for each in params])[:-1])
        params = [
            part.reshape(np.shape(each)).copy() for part, each in zip(parts, params, strict=True)
        ]
    return params


def ring(comm, flat):
    rank, p = comm.Get_rank(), comm.Get_size()
    parts = np.array_split(flat, p)
    after, before = (rank + 1) % p, (rank - 1) % p
    for k in range(p - 1):
        received = np.empty_like(parts[(rank - k - 1) % p])
        comm.Sendrecv(parts[(rank - k) % p], dest=after, recvbuf=received, source=before)
        parts[(rank - k - 1) % p] += received
    parts[(rank + 1) % p] /= p
    for k in range(p - 1):
        received = np.empty_like(parts[(rank - k) % p])
        comm.Sendrecv(parts[(rank + 1 - k) % p], dest=after, recvbuf=received, source=before)
        parts[(rank - k) % p][...] = received
