"""Local SGD: every rank takes steps alone, and now and then all ranks average their parameters.

Eight steps with a period of 3:

    rank 0   s s s |         | s s s |         | s s |
    rank 1   s s s | average | s s s | average | s s | average      s: a rank's own step,
    rank 2   s s s |         | s s s |         | s s |                 w <- w - lr * gradient
    step     0 1 2             3 4 5             6 7

Between two averages the ranks have different parameters, because each one follows the gradient of
its own data. The last period is shorter here, and it ends with an average like the others.

With a period of 1 this is data-parallel SGD: if all ranks begin a step with the same w, then the
mean of their ``w - lr * g`` is ``w - lr * (mean of their g)``.
"""

from collections.abc import Callable

import numpy as np
from mpi4py import MPI


def train(
    comm: MPI.Comm,
    params: list[np.ndarray],
    gradient: Callable,
    num_steps: int,
    period: int,
    lr: float,
) -> list[np.ndarray]:
    """Take ``num_steps`` steps of SGD on every rank, and average after every ``period`` of them.

    Args:
        comm: any mpi4py communicator, the ranks that take part; p >= 1 of them. The library's
            collectives are allowed.
        params: a list of one or more arrays, all float64 or all float32, of any shapes (``()``
            and no elements included). They are equal on all ranks: the caller sees to that, so
            nothing needs to be sent before the first period is over.
        gradient: ``gradient(params, step)`` returns a list of arrays, of the same shapes and
            dtype as ``params``: the gradient of this rank's own loss at ``params``. ``step``
            counts from 0 in the first period and goes on in the next. It chooses the samples.
        num_steps: how many steps each rank takes; 0 or more, the same on all ranks.
        period: how many steps lie between two averages; 1 or more, the same on all ranks.
        lr: the learning rate, a float, the same on all ranks.

    Returns:
        A list of arrays: the parameters after the last average, the same on all ranks bit for
        bit. Without any step they are copies of ``params``.

    Raises:
        ValueError: ``num_steps`` is below 0 or ``period`` below 1; on all ranks, before any
            message and before any gradient.

    - Averages: one after each period, and one after a last period that is shorter; never two
      without a step in between. That is ceil(num_steps / period) of them: 3 for 8 steps with a
      period of 3, 2 for 6 steps, 1 for 2 steps, none for 0 steps.
    - Values: those of the drawing, computed serially, to 1e-12 in float64 (1e-5 in float32).
    - Bytes: for each average a rank sends and receives at most ``2 (p - 1) ceil(m / p)`` elements
      for each array of m elements, as in a ring all-reduce. ``Allreduce`` of b bytes counts as
      ``2 b (p - 1) / p``. The lower-case ``allreduce`` hands everybody's part to everybody and
      counts as ``b (p - 1)``. Example: 8 steps on 4 ranks with one array of 1000 float64. With a
      period of 3 a rank sends 3 * 6 * 250 * 8 = 36,000 bytes; with a period of 1, 96,000.
    - Time: at most 1.05 times ``num_steps`` gradients and ceil(num_steps / period) all-reduces.
      Each all-reduce takes ``2 (p - 1) (alpha + ceil(n / p) * itemsize * beta)``, where n is the
      number of elements in all arrays together. So call ``gradient`` once a step, and let small
      arrays travel together.

    Source: Stich, Local SGD Converges Fast and Communicates Little, ICLR 2019.
    """
    ### BEGIN SOLUTION
    if num_steps < 0 or period < 1:
        raise ValueError(f"num_steps ({num_steps}) is below 0, or period ({period}) is below 1")
    params = [np.array(param) for param in params]
    for step in range(num_steps):
        gradients = gradient(params, step)
        params = [param - lr * g for param, g in zip(params, gradients, strict=True)]
        if (step + 1) % period == 0 or step + 1 == num_steps:
            params = _average(comm, params)
    return params


def _average(comm, params):
    """The mean over all ranks: all arrays travel in one vector."""
    flat = np.concatenate([np.ravel(param) for param in params])
    comm.Allreduce(MPI.IN_PLACE, flat)
    flat /= comm.Get_size()
    ends = np.cumsum([param.size for param in params])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(np.shape(param)) for part, param in zip(parts, params, strict=True)]
    ### END SOLUTION
