"""A parameter server: rank 0 holds the weights, all other ranks are workers.

    worker                         server (rank 0)
      |---- PULL ------------------->|
      |<--- STATE version, weights --|    holds the answer back while the worker is too far ahead
      |  gradient(weights, step)     |
      |---- PUSH version, gradient ->|    weights = update(weights, gradient); version += 1
      |          ...                 |
      |---- END -------------------->|

``given/wire.py`` has the layout of these messages, and functions that send and receive them.

**Versions.** The weights that ``serve`` is given are version 0, and each update makes the next
version. A push carries the version that its gradient was computed on.

**Steps.** A worker's *clock* is the number of its pushes that the server has received. A worker
*works* until the server has received its END. When a worker with clock c pulls, ``staleness`` says
when it is answered:

- ``None``, asynchronous: at once. Every push is applied at once.
- ``s`` = 1, 2, ..., stale-synchronous: as soon as c is at most s larger than the smallest clock
  among the workers that still work. Every push is applied at once.
- ``0``, synchronous: as soon as the newest version is c, so that rounds 0 to c - 1 are applied.
  Round k consists of the gradients of step k, of all workers that have such a step. When every
  worker that still works has pushed its step k, the server applies their mean once, as one version.

A worker that has ended holds nobody back. So an END may complete a round, or allow a pull that was
held back. A round's mean is over the workers that pushed in it, also those that have ended since.
Example with 3 ranks and staleness 1: worker 1 has pushed twice and pulls with clock 2. Worker 2's
clock is 0, and 2 is more than 0 + 1, so this pull waits for worker 2's first push.

- Values: those of one process that applies the same pushes in the same order, to 1e-12.
- Messages: a worker with ``num_steps`` steps sends ``num_steps`` pulls, as many pushes, and one
  END, to rank 0 only. With n = 1000 weights and 3 steps these are 7 messages and 3 * 8008 bytes.
  It receives 3 * 8008 bytes. Library collectives are not used.
- Time: a training takes at most 1.05 times as long as the gradients, three messages a step, and
  the waiting that ``staleness`` demands. One worker may be much slower than the others. So the
  server takes messages in the order in which they come, and waits for no worker by name.
- Arrays are float64, of shape ``(n,)`` with n >= 0, the same n on all ranks.
- Workers may have different ``num_steps``. A worker without steps sends END alone.
- A worker returns while others may still work. The caller calls ``comm.Barrier()`` before the next
  training.
- A ``staleness`` or ``num_steps`` below 0 raises ``ValueError`` before any message.
"""

from collections.abc import Callable

import numpy as np
from given.wire import END, PULL, PUSH, STATE, receive, send
from mpi4py import MPI


def serve(
    comm: MPI.Comm, weights: np.ndarray, update: Callable, staleness: int | None
) -> np.ndarray:
    """Hold the weights until every worker has ended; called on rank 0.

    Args:
        weights: shape ``(n,)``: version 0.
        update: ``update(weights, gradient)`` returns the next version as a new array; it changes
            no argument.
        staleness: None, or a whole number; see above.

    Returns:
        The weights after the last update, a new array.
    """
    ### BEGIN SOLUTION
    if staleness is not None and staleness < 0:
        raise ValueError(f"staleness ({staleness}) must be None or at least 0.")
    version, weights = 0, weights.copy()
    clocks = dict.fromkeys(range(1, comm.Get_size()), 0)  # of workers that still work
    waiting, gradients = [], []  # pulls without an answer; pushes that aren't applied
    while clocks:
        worker, tag, _, gradient = receive(comm)
        if tag == PULL:
            waiting.append(worker)
        elif tag == PUSH:
            clocks[worker] += 1
            gradients.append(gradient)
        elif tag == END:
            del clocks[worker]
        complete = staleness != 0 or all(clock > version for clock in clocks.values())
        if gradients and complete:
            weights = update(weights, np.mean(gradients, axis=0))
            version += 1
            gradients = []
        for worker in list(waiting):
            if staleness is None or clocks[worker] - min(clocks.values()) <= staleness:
                waiting.remove(worker)
                send(comm, worker, STATE, version, weights)
    return weights
    ### END SOLUTION


def work(comm: MPI.Comm, gradient: Callable, num_steps: int) -> list[int]:
    """Compute gradients for the server; called on every rank but 0.

    Args:
        gradient: ``gradient(weights, step)`` returns this rank's gradient, shape ``(n,)``; steps
            are 0, 1, ..., and it changes no argument.
        num_steps: how many gradients this worker computes.

    Returns:
        The versions that they were computed on, a list of ``num_steps`` whole numbers.
    """
    ### BEGIN SOLUTION
    if num_steps < 0:
        raise ValueError(f"num_steps ({num_steps}) must be at least 0.")
    versions = []
    for step in range(num_steps):
        send(comm, 0, PULL)
        _, _, version, weights = receive(comm, 0, STATE)
        send(comm, 0, PUSH, version, gradient(weights, step))
        versions.append(version)
    send(comm, 0, END)
    return versions
    ### END SOLUTION


def measured_training(
    comm: MPI.Comm,
    matrix: np.ndarray,
    targets: np.ndarray,
    staleness: int | None,
    slow: int,
):
    """Training as the run on a cluster measures it: supplied, nothing to write.

    A step computes products of ``matrix`` with itself, whose results nobody needs.

    Args:
        matrix: shape ``(n, n)``.
        targets: shape ``(num_steps, n)``: the gradients that this rank pushes.
        staleness: as for ``serve``.
        slow: how many products rank 1 computes in a step; the others compute one.

    Returns:
        The weights on rank 0, on the others how many gradients they have pushed.
    """
    comm.Barrier()  # a training before this one is over on all ranks
    if comm.Get_rank() == 0:
        weights = np.zeros(len(matrix))
        return serve(comm, weights, lambda weights, gradient: weights - gradient, staleness)

    def gradient(weights, step):
        for _ in range(slow if comm.Get_rank() == 1 else 1):
            matrix @ matrix
        return targets[step]

    return len(work(comm, gradient, len(targets)))
