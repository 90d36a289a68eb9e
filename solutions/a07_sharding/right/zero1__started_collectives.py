"""Collectives are started and waited for; the norm is a shard's square, gathered as objects."""

import math

import numpy as np
from adam import adam


def init_state(comm, params):
    size = -(-len(params) // comm.size)
    return {"m": np.zeros(size, params.dtype), "v": np.zeros(size, params.dtype), "t": np.int64(0)}


def step(comm, params, gradient, state, lr, decay=0.0, clip=None):
    if gradient.size != params.size or (clip is not None and clip <= 0):
        raise ValueError("wrong arguments")
    size = state["m"].size
    table = np.zeros((comm.size, size), params.dtype)
    table.flat[: params.size] = gradient
    g = np.empty(size, params.dtype)
    comm.Ireduce_scatter_block(table, g).Wait()
    g /= comm.size
    norm = math.sqrt(sum(comm.allgather(float(np.dot(g, g)))))
    if clip is not None and norm > clip:
        g *= clip / norm
    table.flat[: params.size] = params
    t = int(state["t"]) + 1
    w, m, v = adam(table[comm.rank], g, state["m"], state["v"], t, lr, decay)
    new = np.empty_like(table)
    request = comm.Iallgather(w, new)
    while not request.Test():
        pass
    return new.reshape(-1)[: params.size].copy(), {"m": m, "v": v, "t": t}, norm


def measured_step(comm, params, gradient):
    params, _, norm = step(comm, params, gradient, init_state(comm, params), 0.01, 0.1, 1.0)
    return params, norm
