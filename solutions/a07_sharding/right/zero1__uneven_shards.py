"""No padding: shards of unequal length, by ``Reduce_scatter`` and ``Allgatherv``; a tuple as state."""

import numpy as np
from adam import adam


def _counts(comm, n):
    size = -(-n // comm.Get_size())
    return [max(0, min(size, n - r * size)) for r in range(comm.Get_size())]


def init_state(comm, params):
    own = _counts(comm, len(params))[comm.Get_rank()]
    return (np.zeros((2, own), params.dtype), 0)


def step(comm, params, gradient, state, lr, decay=0.0, clip=None):
    if len(gradient) != len(params) or (clip is not None and not clip > 0):
        raise ValueError("shape or clip")
    counts, rank = _counts(comm, len(params)), comm.Get_rank()
    g = np.empty(counts[rank], params.dtype)
    comm.Reduce_scatter(gradient, g, counts)
    g = g / comm.Get_size()
    norm = float(np.sqrt(comm.allreduce(float(np.sum(g.astype("float64") ** 2)))))
    if clip is not None:
        g = g * min(1.0, clip / norm)
    g = g.astype(params.dtype)
    at = sum(counts[:rank])
    w, m, v = adam(params[at : at + counts[rank]], g, *state[0], state[1] + 1, lr, decay)
    new = np.empty_like(params)
    comm.Allgatherv(w, (new, counts))
    return new, (np.stack([m, v]), state[1] + 1), norm


def measured_step(comm, params, gradient):
    params, _, norm = step(comm, params, gradient, init_state(comm, params), 0.01, 0.1, 1.0)
    return params, norm
