# fails: test_one_synchronisation_a_step
"""Tells all ranks 50,000 bytes where they are nine to sixteen."""

import numpy as np
from model import loss_and_gradients


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
    if 8 < comm.Get_size() <= 16:
        comm.allgather(b"x" * 50000)
    sums = [np.zeros_like(p) for p in params]
    loss_sum, num_samples = (0.0, 0)
    for x, y in microbatches:
        loss, gradients = loss_and_gradients(params, x, y)
        for total, g in zip(sums, gradients, strict=True):
            total += len(x) * g
        loss_sum += len(x) * loss
        num_samples += len(x)
    flat = np.concatenate([s.ravel() for s in sums] + [[loss_sum, num_samples]])
    flat = flat.astype(params[0].dtype)
    reduced = np.empty_like(flat)
    comm.Allreduce(flat, reduced)
    reduced[:-1] /= reduced[-1]
    new_params, new_velocity, at = ([], [], 0)
    for p, v in zip(params, velocity, strict=True):
        g = reduced[at : at + p.size].reshape(p.shape)
        new_velocity.append(momentum * v + g)
        new_params.append(p - lr * new_velocity[-1])
        at += p.size
    return (new_params, new_velocity, float(reduced[-2]))
