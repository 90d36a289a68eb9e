"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What a rank alone can make, such as a
gradient, and what must be looked at from inside, such as arrays that share memory, is here.
"""

import numpy as np
from local_loss import LocalLoss

from ringside.checking import find

# -- local_sgd -------------------------------------------------------------------------------------


def local_sgd_trained(comm, params, curvatures, samples, num_steps, period, lr):
    """``local_sgd.train`` on a rank's own loss; returns the parameters."""
    loss = LocalLoss(curvatures, samples)
    return find("local_sgd:train")(comm, params, loss.gradient, num_steps, period, lr)


def local_sgd_looked_at(comm, params, curvatures, samples, num_steps, period, lr):
    """Two equal calls of ``local_sgd.train``.

    Returns:
        ``(first, second, changed, shared)``: both results, looked at after the second call; was
        ``params`` changed, and does a result share memory with it or with the other one?
    """
    given, before = list(params), [np.array(param) for param in params]
    calls = (curvatures, samples, num_steps, period, lr)
    first, second = (list(local_sgd_trained(comm, given, *calls)) for _ in range(2))
    kept = len(given) == len(params) and all(a is b for a, b in zip(given, params, strict=True))
    changed = not kept or not all(map(np.array_equal, params, before))
    return first, second, changed, overlapping([*params, *first, *second])


def local_sgd_refused(comm, num_steps, period):
    """``local_sgd.train`` with numbers that can't be right: its error, and gradients computed."""
    called = []

    def gradient(params, step):
        called.append(step)
        return [np.zeros_like(param) for param in params]

    error = error_of("local_sgd:train", comm, [np.ones(3)], gradient, num_steps, period, 0.1)
    return error, len(called)


# -- gossip ----------------------------------------------------------------------------------------


def gossip_looked_at(comm, x, neighbours, weights, num_rounds):
    """Two equal calls of ``gossip.average`` with an x that is not contiguous.

    Returns:
        ``(first, second, changed, shared)``: as ``local_sgd_looked_at``.
    """
    larger = np.full((*x.shape, 2), 77, x.dtype)
    given = larger[..., 0]
    given[...] = x
    lists = list(neighbours), list(weights)
    first, second = (find("gossip:average")(comm, given, *lists, num_rounds) for _ in range(2))
    spoilt = bool(np.any(larger[..., 1] != 77)) or not np.array_equal(given, x)
    changed = spoilt or lists != (list(neighbours), list(weights))
    return first, second, changed, overlapping([larger, first, second])


def gossip_refused(comm, neighbours, weights, num_rounds):
    """``gossip.average`` on two ranks with a row that can't be right: its error.

    Args:
        neighbours: of words ``"me"`` and ``"you"``, which stand for the two ranks, and of numbers.
    """
    named = {"me": comm.Get_rank(), "you": 1 - comm.Get_rank()}
    row = [named.get(each, each) for each in neighbours]
    return error_of("gossip:average", comm, np.ones(3), row, weights, num_rounds)


# -- what several of them need ---------------------------------------------------------------------


def overlapping(arrays):
    """Do two of these share memory?"""
    found = [array for array in arrays if isinstance(array, np.ndarray) and array.size]
    return any(np.shares_memory(a, b) for k, a in enumerate(found) for b in found[:k])


def error_of(target, *arguments):
    """The type of the exception that a call raises; empty if it returns."""
    try:
        find(target)(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""
