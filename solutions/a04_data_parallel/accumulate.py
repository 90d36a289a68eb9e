"""Gradient accumulation (extra): several microbatches, one after another, and one synchronisation.

    rank 0   F B  F B  F B |            | update
    rank 1   F B  F B  F B | all-reduce | update      a microbatch fits the memory,
    rank 2   F B  F B      |            | update      the batch of a step need not

The step is that of all samples of all microbatches of all ranks at once.

- Parameters and velocity are lists of arrays: any number of layers, any shapes, all float64 or all
  float32, like ``x``. Results are lists of arrays of the same dtype.
- The library's collectives are allowed, and bytes count as ``step.py`` says.
"""

import numpy as np
from given.model import loss_and_gradients
from mpi4py import MPI


def accumulated_step(
    comm: MPI.Comm,
    params: list[np.ndarray],
    velocity: list[np.ndarray],
    microbatches: list[tuple[np.ndarray, np.ndarray]],
    lr: float,
    momentum: float,
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """One step of SGD with momentum on the microbatches of all ranks.

    Args:
        comm: the ranks that take part; p of them.
        params, velocity: the same on all ranks.
        microbatches: this rank's list of pairs ``(x, y)``, shapes ``(b, d)`` and ``(b,)``. Both b
            and the length of the list differ from rank to rank, and may be 0, but some rank
            has a sample.
        lr, momentum: floats, the same on all ranks.

    Returns:
        ``(params, velocity, loss)``: lists of arrays and a float. The loss is the mean over all
        samples of all ranks' microbatches, before the update.

    - Values: those of ``loss_and_gradients`` on all samples at once, to 1e-12 in float64 (1e-5 in
      float32), with ``v <- momentum v + g`` and ``w <- w - lr v``. Parameters and velocity are
      equal on all ranks, bit for bit.
    - Work: each sample goes through ``model.loss_and_gradients`` once, on the rank that has it.
    - Memory: never more samples at a time than the rank's longest microbatch has.
    - Bytes: those of one step in ``step.py``, however many microbatches there are.
    - Time: as in ``step.py``.
    """
    ### BEGIN SOLUTION
    sums = [np.zeros_like(p) for p in params]  # of gradients over samples, not means
    loss_sum, num_samples = 0.0, 0
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
    new_params, new_velocity, at = [], [], 0
    for p, v in zip(params, velocity, strict=True):
        g = reduced[at : at + p.size].reshape(p.shape)
        new_velocity.append(momentum * v + g)
        new_params.append(p - lr * new_velocity[-1])
        at += p.size
    return new_params, new_velocity, float(reduced[-2])
    ### END SOLUTION
