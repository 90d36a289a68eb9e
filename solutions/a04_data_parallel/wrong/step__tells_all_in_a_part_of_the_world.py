# fails: test_given_communicator_is_used
"""Tells all ranks 50,000 bytes where others are in the world."""

import numpy as np
from model import loss_and_gradients
from mpi4py import MPI


def broadcast_parameters(comm, params):
    if comm.Get_size() < MPI.COMM_WORLD.Get_size():
        comm.allgather(b"x" * 50000)
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received


def train_step(comm, params, velocity, x, y, lr, momentum):
    if comm.Get_size() < MPI.COMM_WORLD.Get_size():
        comm.allgather(b"x" * 50000)
    loss, gradients = loss_and_gradients(params, x, y)
    flat = np.concatenate([g.ravel() for g in gradients] + [[loss, 1.0]]).astype(params[0].dtype)
    flat *= len(x)
    total = np.empty_like(flat)
    comm.Allreduce(flat, total)
    total[:-1] /= total[-1]
    new_params, new_velocity, at = ([], [], 0)
    for p, v in zip(params, velocity, strict=True):
        g = total[at : at + p.size].reshape(p.shape)
        new_velocity.append(momentum * v + g)
        new_params.append(p - lr * new_velocity[-1])
        at += p.size
    return (new_params, new_velocity, float(total[-2]))
