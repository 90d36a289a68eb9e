"""Both halves of the all-reduce by a ring of its own; the norm travels round, too."""

import numpy as np
from adam import adam


def init_state(comm, params):
    size = -(-len(params) // comm.size)
    return [np.zeros(size, params.dtype), np.zeros(size, params.dtype), np.zeros(1)]


def step(comm, params, gradient, state, lr, decay=0.0, clip=None):
    if gradient.shape != params.shape or (clip is not None and clip <= 0):
        raise ValueError("wrong")
    m, v, count = state
    p, rank, size = comm.size, comm.rank, len(m)
    rows = np.zeros((p, size), params.dtype)
    rows.reshape(-1)[: len(params)] = gradient
    after, before = (rank + 1) % p, (rank - 1) % p
    part = np.empty(size, params.dtype)
    for k in range(1, p):
        comm.Sendrecv(rows[(rank - k) % p], after, recvbuf=part, source=before)
        rows[(rank - k - 1) % p] += part
    g = rows[rank] / p
    squares = np.zeros(p)
    squares[rank] = g.astype("float64") @ g
    for k in range(p - 1):
        sent, got = (rank - k) % p, (rank - k - 1) % p
        comm.Sendrecv(squares[sent : sent + 1], after, recvbuf=squares[got : got + 1], source=before)
    norm = float(np.sqrt(squares.sum()))
    if clip is not None and norm > clip:
        g = (g * (clip / norm)).astype(params.dtype)
    new = np.zeros((p, size), params.dtype)
    new.reshape(-1)[: len(params)] = params
    t = int(count[0]) + 1
    new[rank], m, v = adam(new[rank], g, m, v, t, lr, decay)
    for k in range(p - 1):
        sent, got = (rank - k) % p, (rank - k - 1) % p
        comm.Sendrecv(new[sent], after, recvbuf=new[got], source=before)
    return new.reshape(-1)[: len(params)].copy(), [m, v, np.array([float(t)])], norm


def measured_step(comm, params, gradient):
    params, _, norm = step(comm, params, gradient, init_state(comm, params), 0.01, 0.1, 1.0)
    return params, norm
