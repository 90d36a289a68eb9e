"""How often to write a checkpoint, from a formula and along a run whose stops are known.

    work   tau   write        tau   write      lost        restart     tau   write
    |============|----|============|----|=======x . . . . . |==========|----|
                                                stop   restart_s

A job computes for ``tau_s``, writes a checkpoint for ``write_s``, and so on. A stop loses all that
was computed since the last whole checkpoint; then a restart takes ``restart_s``. A stop in a
restart begins it anew, and one while a checkpoint is written spoils that checkpoint. In the formula
stops come at random, with a mean of ``between_s`` from one to the next, in work, writing and
restarts alike. Lecture 15, section 3 derives it.
"""

import math
from collections.abc import Sequence


def lost_share(tau_s: float, write_s: float, restart_s: float, between_s: float) -> float:
    """The share of a long run that is lost: exact, also where stops are frequent.

    Args:
        tau_s: above 0.
        write_s, restart_s: at least 0.
        between_s: above 0.

    Returns:
        ``1 - tau / E``, from 0 to 1, where ``E`` is the mean time until ``tau_s`` of work are done
        and saved. 1.0 where E is too large for a float. Example: with 1000 s of work, 30 s of
        writing, 300 s of restart and 10,000 s between stops it is 0.1055.
    """
    ### BEGIN SOLUTION
    try:
        mean_s = (
            between_s * math.exp(restart_s / between_s) * math.expm1((tau_s + write_s) / between_s)
        )
    except OverflowError:
        return 1.0
    return 1 - tau_s / mean_s
    ### END SOLUTION


def best_interval(write_s: float, between_s: float) -> float:
    """The ``tau_s`` with the smallest ``lost_share``, to one millionth of it.

    Args:
        write_s: from ``1e-12`` to 100 times ``between_s``.
        between_s: above 0.

    Returns:
        Seconds. Example: 5 s of writing, 15 s between stops: 9.167 s. Young's ``sqrt(2 C M)`` is
        12.2 s.
    """
    ### BEGIN SOLUTION
    low, high, write = 0.0, 1.0, write_s / between_s  # of tau / between
    for _ in range(200):  # the root of a function that grows from below 0 to above
        middle = (low + high) / 2
        if math.expm1(-middle - write) + middle < 0:
            low = middle
        else:
            high = middle
    return high * between_s
    ### END SOLUTION


def walk(
    tau_s: float, write_s: float, restart_s: float, stops_s: Sequence[float], end_s: float
) -> float:
    """Useful seconds of a run with these stops.

    Args:
        tau_s, write_s, restart_s: as above; work begins at 0.
        stops_s: when it stops, in increasing order, all before ``end_s``; there may be none.
        end_s: when the run is ended as planned.

    Returns:
        Seconds of work that were not lost. A checkpoint whose writing ends at the moment of a stop
        is whole. At ``end_s`` the work since the last checkpoint counts, too. Example: 100 s of
        work, 10 s of writing, a restart of 30 s, a stop at 250 s and the end at 400 s: two whole
        checkpoints, then work from 280 s on, a third one, and 10 s of work: 310 s.
    """
    ### BEGIN SOLUTION
    useful_s, begin_s = 0.0, 0.0
    for stop_s in stops_s:
        if stop_s > begin_s:
            useful_s += (stop_s - begin_s) // (tau_s + write_s) * tau_s
        begin_s = stop_s + restart_s
    if begin_s >= end_s:
        return useful_s
    count, rest_s = divmod(end_s - begin_s, tau_s + write_s)
    return useful_s + count * tau_s + min(rest_s, tau_s)
    ### END SOLUTION
