"""Gradient accumulation (extra): several microbatches, one after another, and one synchronisation.

    rank 0   F B  F B  F B |            | update
    rank 1   F B  F B  F B | all-reduce | update      a microbatch fits the memory,
    rank 2   F B  F B      |            | update      the batch of a step need not

The step is that of all samples of all microbatches of all ranks at once.

Rules:

- ``comm`` is any mpi4py communicator, of p >= 1 ranks in any order; it need not be
  ``COMM_WORLD``. The library's collectives are allowed.
- Parameters and velocity are lists of arrays (any number of layers, any shapes), of one dtype,
  float64 or float32, that ``x`` has too. What is given, lists as well as arrays, is not
  modified, not even for a moment, and arrays may be read-only.
- Results are new lists of new arrays of that dtype, writable, that share memory with nothing
  that was given. A call keeps nothing for the next one.
- A send may wait until its receive is posted (rendezvous), messages of different ranks may
  arrive in any order, and every request that is started is completed.
- Bytes count as ``step.py`` says: point-to-point calls as they are, library collectives as a
  ring would send them.
"""

import numpy as np
from model import loss_and_gradients


def accumulated_step(comm, params, velocity, microbatches, lr, momentum):
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
      float32), with ``v <- momentum v + g`` and ``w <- w - lr v``; parameters and velocity are
      equal on all ranks, bit for bit.
    - Work: each sample goes through ``model.loss_and_gradients`` once, on the rank that has it.
    - Memory: never more samples at a time than the rank's longest microbatch has.
    - Bytes: each rank sends and receives at most ``2 (p - 1) ceil(m / p)`` elements for each array
      of m elements, and ``64 (p - 1)`` bytes more, however many microbatches there are.
    - Time: where the machine's latency hardly counts, at most 1.05 times ``longest work of a rank
      + one all-reduce of the gradient and 8 numbers``, half the points up to 1.5 times.
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
