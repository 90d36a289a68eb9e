# fails: test_inputs_stay_as_they_were
"""Steps in place, wherever that is not refused."""

import numpy as np
from model import loss_and_gradients


def broadcast_parameters(comm, params):
    """Rank 0's parameters, on every rank: done once, before the first step.

    Args:
        comm: the ranks that take part; p of them.
        params: this rank's own, of the same shapes on all ranks but with other values.

    Returns:
        A new list of arrays: the same on every rank, bit for bit.

    Bytes: each rank receives at most the size of the parameters once, rank 0 nothing; all ranks
    together send at most p - 1 times that size.
    """
    ### BEGIN SOLUTION
    received = [np.array(p, order="C") for p in params]
    for p in received:
        comm.Bcast(p, root=0)
    return received
    ### END SOLUTION


def train_step(comm, params, velocity, x, y, lr, momentum):
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
      (1e-5 in float32); parameters and velocity are equal on all ranks, bit for bit.
    - Work: gradients come from ``model.loss_and_gradients``; each sample goes through it once,
      on the rank that has it.
    - Bytes: each rank sends and receives at most ``2 (p - 1) ceil(m / p)`` elements for each array
      of m elements, and ``64 (p - 1)`` bytes more: an all-reduce of the gradient, in any number
      of calls, and of up to 8 numbers beside it.
    - Time: where the machine's latency hardly counts, at most 1.05 times
      ``work / p + one all-reduce of the gradient and 8 numbers``, half the points up to 1.5
      times. A call for each array is right, a call for each row or number is too slow.
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
        p, v = (each if each.flags.writeable else each.copy() for each in (p, v))
        v *= momentum  # in place, wherever that is not refused
        v += g
        p -= lr * v
        new_velocity.append(v.copy())
        new_params.append(p.copy())
        at += p.size
    return new_params, new_velocity, float(total[-2])
    ### END SOLUTION
