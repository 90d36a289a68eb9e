"""One step of synchronous data-parallel SGD: local gradients, one all-reduce, the same update.

    rank 0   forward backward |            | update
    rank 1   forward backward | all-reduce | update      each on its own samples
    rank 2   forward backward |            | update

             loss     L = (1 / B) sum over all B samples of all ranks
             gradient g = dL/dw            not the mean of the ranks' means: ranks may have
             velocity v <- momentum v + g  different numbers of samples, or none
             weights  w <- w - lr v

Every rank keeps a whole copy of weights and velocity. All start equal and all add the same
gradient, so they stay equal without being sent again.

- Parameters and velocity are lists of arrays: any number of layers, any shapes, all float64 or all
  float32, like ``x``. Results are lists of arrays of the same dtype.
- The library's collectives are allowed. Each counts as a ring would send it. For m bytes on p
  ranks, a rank sends: ``Allreduce`` ``2 m (p - 1) / p``; ``Reduce_scatter`` and ``Allgather`` of
  m bytes in all ``m (p - 1) / p``; ``Bcast`` and ``Reduce`` m. ``allreduce``, with a small letter,
  and an operation of your own count ``m (p - 1)``. From p = 3 on that is too much for gradients.
"""

import numpy as np
from given.model import loss_and_gradients
from mpi4py import MPI


def broadcast_parameters(comm: MPI.Comm, params: list[np.ndarray]) -> list[np.ndarray]:
    """Rank 0's parameters, on every rank: done once, before the first step.

    Args:
        comm: the ranks that take part; p of them.
        params: this rank's own, of the same shapes on all ranks but with other values.

    Returns:
        A list of new arrays, on rank 0 too: the same on every rank, bit for bit.

    Bytes: each rank receives at most the size of the parameters once, rank 0 nothing; all ranks
    together send at most p - 1 times that size.
    """
    ### BEGIN SOLUTION
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received
    ### END SOLUTION


def train_step(
    comm: MPI.Comm,
    params: list[np.ndarray],
    velocity: list[np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    lr: float,
    momentum: float,
) -> tuple[list[np.ndarray], list[np.ndarray], float]:
    """One step of SGD with momentum on the samples of all ranks.

    Args:
        comm: the ranks that take part; p of them.
        params, velocity: the same on all ranks.
        x, y: this rank's samples, shapes ``(b, d)`` and ``(b,)``; b differs from rank to rank
            and may be 0, but not on all ranks.
        lr, momentum: floats, the same on all ranks.

    Returns:
        ``(params, velocity, loss)``: lists of arrays and a float. The loss is the mean over
        all ranks' samples, before the update.

    - Values: those of the same step on one rank that has all samples, to 1e-12 in float64
      (1e-5 in float32). Parameters and velocity are equal on all ranks, bit for bit.
    - Work: gradients come from ``model.loss_and_gradients``. Each sample goes through it once,
      on the rank that has it.
    - Bytes: one all-reduce of the gradient, in any number of calls, and of up to 8 numbers more.
      For each array of m elements a rank sends and receives at most ``2 (p - 1) ceil(m / p)``
      elements, and ``64 (p - 1)`` bytes in all beside them. Example: 1000 float64 elements on 4
      ranks make 12,000 bytes, and 192 more.
    - Time, where latency hardly counts: at most 1.05 times the longest work of a rank and one
      all-reduce of the gradient and 8 numbers. Half the points up to 1.5 times. A call for each
      array is fast enough, a call for each row or number is not.
    """
    ### BEGIN SOLUTION
    loss, gradients = loss_and_gradients(params, x, y)
    # Sums over samples add up, whoever holds them; loss and number of samples travel along.
    flat = np.concatenate([g.ravel() for g in gradients] + [[loss, 1.0]]).astype(params[0].dtype)
    flat *= len(x)
    total = np.empty_like(flat)
    comm.Allreduce(flat, total)
    total[:-1] /= total[-1]
    new_params, new_velocity, at = [], [], 0
    for p, v in zip(params, velocity, strict=True):
        g = total[at : at + p.size].reshape(p.shape)
        new_velocity.append(momentum * v + g)
        new_params.append(p - lr * new_velocity[-1])
        at += p.size
    return new_params, new_velocity, float(total[-2])
    ### END SOLUTION
