"""Synchronous SGD that goes on with the ranks that are left, on the same batches.

    step     0            1                 2                       2 again            3
    rank 0   0 1 2  sum   0 1 2  sum   |    0 1 2  sum?  agree: no  0 1 2 3  sum  |
    rank 1   3 4 5  sum   3 4 5  sum   |    3 4 5  sum?  agree: no  4 5 6 7  sum  |   samples of
    rank 2   6 7 8  sum   6 7 8  sum   |    x dies                                |   each step
    rank 3   9 ..   sum   9 ..   sum   |    9 ..   sum?  agree: no  8 ..     sum  |

A step is either taken by all that are left, or by none. Who dies takes the samples of its share
along, so the step is begun anew, and the whole batch is shared out among those who are left. The
parameters that come out are those of a run on one rank, whoever died.

What ``comm`` offers. No rank is told of a death by itself: a call raises ``MPI.Exception``, whose
``Get_error_class()`` is one of these.

- ``MPI.ERR_PROC_FAILED``: a rank that this call needs is dead. If a rank dies within a library
  collective, some of the others may get the result, and the rest this error.
- ``MPI.ERR_REVOKED``: a rank has called ``comm.Revoke()``. From then on each message and collective
  on ``comm`` ends so, but for the two below; it may be revoked again. A rank that waits for one
  which is alive learns of a failure by this alone. A library collective with a dead member raises
  by itself.
- ``comm.Agree(flag)`` returns the bitwise AND of the flags of all ranks that are alive, on all of
  them. It raises ``MPI.ERR_PROC_FAILED`` instead on all of them alike, if a rank of ``comm`` is
  dead.
- ``comm.Shrink()`` returns a new communicator of the ranks that are alive, in their old order. It
  raises nothing: who dies in it is left out, or is found dead by the next call. ``Agree`` and
  ``Shrink`` work on a revoked communicator, and all that are alive must call them.

Catch ``MPI.ERR_PROC_FAILED`` and ``MPI.ERR_REVOKED``, and nothing else: any other exception comes
out of ``train``. (``Waitall`` raises ``MPI.ERR_IN_STATUS`` for both: wait for one request at a
time, or look into its statuses.)
"""

import numpy as np
from given.model import gradient
from mpi4py import MPI


def train(
    comm: MPI.Comm,
    params: np.ndarray,
    samples: np.ndarray,
    batch: int,
    num_steps: int,
    lr: float,
) -> np.ndarray:
    """SGD in which each step uses the same ``batch`` samples, whoever is left.

    Args:
        comm: the ranks that begin; p of them. Any of them may die at any time, one after the
            other or several at once, also inside ``Agree`` and ``Shrink``; one stays alive.
        params: shape ``(n,)``, float64, the same on all ranks.
        samples: shape ``(num_steps * batch, n + 1)``, the same on all ranks. Step t has samples
            ``t * batch`` to ``(t + 1) * batch - 1``.
        batch: samples of a step, B of them; there may be fewer than ranks.
        num_steps: number of steps, at least 1.
        lr: the learning rate.

    Returns:
        The parameters after ``num_steps`` steps ``params - lr * mean``, where the mean of a step is
        over its B samples: those of one rank alone, with an absolute error below 1e-12. All ranks
        that are left return the same bits.

    - Gradients come from ``given.model.gradient``, which is told the step and the place of its
      first sample in the step's batch.
    - Samples: with p ranks left, a rank computes at most ``ceil(B / p)`` samples each time that a
      step is begun. A step is begun anew at most once for each rank whose death is noticed in it.
      What all have agreed on is not repeated.
    - Bytes: each time that a step is begun, a rank sends at most ``2 (p - 1) ceil(n / p)``
      elements and 16 bytes, and receives as much, with p ranks left. Example: n = 11 on 4 ranks
      are 18 elements, 144 + 16 bytes. ``Allreduce`` counts as a ring would send it; ``Agree`` and
      ``Shrink`` count nothing. Your own messages are allowed, too.
    - Time: at most 1.05 times that of all steps: the samples, a ring's all-reduce, and
      ``2 ceil(log2 p)`` latencies for an agreement. For each rank that dies there may be one step
      more, ``4 ceil(log2 p)`` latencies, and the time until its death is known
      (``machine.failure_detect_s``). Half the points up to 1.5 times.
    """
    ### BEGIN SOLUTION
    step = 0
    while step < num_steps:
        p, rank = comm.Get_size(), comm.Get_rank()
        first, last = batch * rank // p, batch * (rank + 1) // p
        own = samples[step * batch + first : step * batch + last]
        total, complete = np.empty_like(params), 1
        try:
            comm.Allreduce(gradient(params, own, step, first), total)
        except MPI.Exception as error:
            _check_failure(error)
            comm.Revoke()  # whoever waits for this rank learns of it
            complete = 0
        try:
            complete = comm.Agree(complete)
        except MPI.Exception as error:  # on all that are left alike
            _check_failure(error)
            complete = 0
        if complete:
            params = params - lr * total / batch
            step += 1
        else:
            comm = comm.Shrink()
    return params


def _check_failure(error):
    """Raise what tells of no failure."""
    if error.Get_error_class() not in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED):
        raise error
    ### END SOLUTION
