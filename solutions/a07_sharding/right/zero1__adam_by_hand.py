"""The update written out, with its work declared; in-place collectives; a nested state."""

import adam
import numpy as np
from mpi4py import MPI

import ringside


def init_state(comm, params):
    size = (len(params) + comm.Get_size() - 1) // comm.Get_size()
    return {"adam": {"means": [np.zeros(size, params.dtype) for _ in range(2)]}, "steps": [0]}


def step(comm, params, gradient, state, lr, decay=0.0, clip=None):
    if gradient.shape != params.shape:
        raise ValueError("gradient")
    if clip is not None and clip <= 0:
        raise ValueError("clip")
    m, v = (each.copy() for each in state["adam"]["means"])
    t = state["steps"][0] + 1
    size, rank = len(m), comm.Get_rank()
    padding = np.zeros(size * comm.Get_size() - len(params), params.dtype)
    g = np.empty(size, params.dtype)
    comm.Reduce_scatter_block(np.concatenate([gradient, padding]) / comm.Get_size(), g)
    square = np.array(np.sum(np.square(g, dtype="float64")))
    comm.Allreduce(MPI.IN_PLACE, square)
    norm = float(square) ** 0.5
    if clip is not None and norm > clip:
        g *= clip / norm
    whole = np.concatenate([params, padding])
    w = whole[rank * size : (rank + 1) * size]
    ringside.compute(num_flops=adam.FLOPS * size, phase="update")
    m *= adam.BETA1
    m += (1 - adam.BETA1) * g
    v *= adam.BETA2
    v += (1 - adam.BETA2) * g * g
    w -= lr * decay * w + lr * (m / (1 - adam.BETA1**t)) / (
        np.sqrt(v / (1 - adam.BETA2**t)) + adam.EPS
    )
    comm.Allgather(MPI.IN_PLACE, whole)
    return whole[: len(params)].copy(), {"adam": {"means": [m, v]}, "steps": [t]}, norm


def measured_step(comm, params, gradient):
    params, _, norm = step(comm, params, gradient, init_state(comm, params), 0.01, 0.1, 1.0)
    return params, norm
