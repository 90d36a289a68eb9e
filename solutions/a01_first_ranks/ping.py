"""Ping-pong: what a message costs, measured between two ranks.

    rank 0     --- x --->              --- x --->
    partner               <--- x ---               <--- x ---     ...
               |<--- a round trip --->|

    time of one message = half of a round trip

Rules for both functions:

- Rank 0 of ``comm`` and rank ``partner`` of ``comm`` exchange messages. All other ranks return
  None at once, and neither send, receive nor wait. With p = 1 there is nobody to talk to: return
  None.
- Use point-to-point calls only, upper-case or lower-case, on ``comm``; no collective, not even
  ``Barrier``.
- Messages follow one another: nobody sends before the message that it answers has come.
"""

import numpy as np
from mpi4py import MPI


def bounce(comm: MPI.Comm, x: np.ndarray, repetitions: int, partner: int = 1) -> np.ndarray | None:
    """Let ``x`` of rank 0 travel to the partner and back, ``repetitions`` times.

    The partner sends back what it has received, rank 0 sends on what has come back.

    Args:
        comm: the ranks, see above.
        x: shape ``(n,)``, n >= 0, contiguous. The partner's ``x`` has the same length and dtype as
            that of rank 0; its values don't matter.
        repetitions: round trips, at least 1.
        partner: the rank of ``comm`` at the other end; at least 1, and below p if p > 1.

    Returns:
        On rank 0 a new array, shape ``(n,)``: what came back last, equal to its ``x``. None on
        all others.

    Bounds, with the numbers for 1000 float64 and ``repetitions = 3`` on ``textbook``
    (alpha = 1e-6 s, beta = 1e-9 s a byte):

    - Messages: exactly ``repetitions`` from rank 0 to the partner and as many back (3 and 3), of
      ``x.nbytes`` each (8000 bytes).
    - Time: ``2 repetitions (alpha + x.nbytes * beta)`` (54 µs).
    """
    ### BEGIN SOLUTION
    rank = comm.Get_rank()
    if comm.Get_size() == 1 or rank not in (0, partner):
        return None
    ball = np.array(x)
    for _ in range(repetitions):
        if rank == 0:
            comm.Send(ball, dest=partner)
            comm.Recv(ball, source=partner)
        else:
            comm.Recv(ball, source=0)
            comm.Send(ball, dest=0)
    return ball if rank == 0 else None
    ### END SOLUTION


def ping(comm: MPI.Comm, nbytes: int, repetitions: int, partner: int = 1) -> float | None:
    """Measure the time of a message of ``nbytes`` bytes between rank 0 and the partner.

    The first round trip is not timed: the partner may come late, and a first message may make a
    connection. The clock is ``MPI.Wtime`` on rank 0, which on simulated ranks tells virtual time.

    Args:
        comm: the ranks, see above.
        nbytes: payload of each message, at least 0.
        repetitions: round trips that are timed, at least 1.
        partner: as in ``bounce``.

    Returns:
        On rank 0 a float: half of the mean time of the timed round trips, in seconds. None on all
        others.

    Messages: exactly ``repetitions + 1`` from rank 0 to the partner and as many back, of
    ``nbytes`` each. Time: that of ``bounce`` with ``repetitions + 1``.
    """
    ### BEGIN SOLUTION
    message = np.zeros(nbytes, np.uint8)
    bounce(comm, message, 1, partner)
    start_s = MPI.Wtime()
    if bounce(comm, message, repetitions, partner) is None:
        return None
    return (MPI.Wtime() - start_s) / (2 * repetitions)
    ### END SOLUTION
