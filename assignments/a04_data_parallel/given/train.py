"""A training run on ranks, made of your modules: supplied, nothing to write."""

import numpy as np
from mpi4py import MPI
from shard import shard
from step import broadcast_parameters, train_step


def train(
    comm: MPI.Comm,
    params: list[np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    local_batch_size: int,
    lrs: list[float],
    momentum: float,
    seed: int = 0,
) -> tuple:
    """Train for as many steps as there are learning rates.

    Args:
        comm: the ranks that take part; p of them.
        params: this rank's initial ones; rank 0's are taken.
        x, y: all training samples, on every rank: each takes its shard of them.
        local_batch_size: samples of each rank a step.
        lrs: the learning rate of each step; epochs follow one another.
        seed: of the order of the samples.

    Returns:
        ``(losses, history)``: the loss of each step, and rank 0's parameters after each epoch.
    """
    params = broadcast_parameters(comm, params)
    velocity = [np.zeros_like(p) for p in params]
    losses, history, epoch = [], [], 0
    steps_per_epoch = -(-len(x) // (local_batch_size * comm.size))
    while len(losses) < len(lrs):
        mine = shard(len(x), comm.size, comm.rank, epoch, seed)
        for step in range(steps_per_epoch):
            batch = mine[step * local_batch_size : (step + 1) * local_batch_size]
            lr = lrs[len(losses)]
            params, velocity, loss = train_step(
                comm, params, velocity, x[batch], y[batch], lr, momentum
            )
            losses.append(loss)
        history.append(params if comm.rank == 0 else None)
        epoch += 1
    return losses, history
