"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside, such as
an input that is a slice of something, they ask for here.
"""

import numpy as np

from ringside import Machine
from ringside.checking.callers import find
from ringside.checking.inside import several


def strided(comm, target, stride, x, *rest):
    """Call with every stride-th element of a longer array, read-only, and look at it afterwards.

    Returns:
        A dict: the ``result``; whether it is ``shared``, so has memory of the input; whether the
        longer array ``changed``.
    """
    longer = np.full(abs(stride) * len(x) + 1, 77, dtype=x.dtype)
    view = longer[: abs(stride) * len(x)][::stride]
    view[:] = x
    before = longer.copy()
    view.flags.writeable = longer.flags.writeable = False
    result = find(target)(comm, view, *rest)
    shared = isinstance(result, np.ndarray) and bool(np.shares_memory(result, longer))
    return {"result": result, "shared": shared, "changed": not np.array_equal(longer, before)}


def twice(comm, target, first, second, *rest):
    """Call with one vector, another, and the first again; then look at the first result again.

    Between the first two calls is one with the second vector as float32, if it isn't that.

    Returns:
        A dict: the first result ``then`` and ``now``, the second one, ``late``, and that of float32
        (``single``); whether one is ``shared``, so has memory of another or of an input, and
        whether one is ``fixed``, so can't be written to.
    """
    function = find(target)
    early = function(comm, first, *rest)
    then = np.array(early)
    is_single = second.dtype == np.float32
    single = None if is_single else function(comm, second.astype(np.float32), *rest)
    late = function(comm, second, *rest)
    last = function(comm, first, *rest)
    pairs = [(out, given) for out in (early, late, last) for given in (first, second)]
    pairs += [(early, late), (early, last), (late, last)]
    arrays = [pair for pair in pairs if all(isinstance(each, np.ndarray) for each in pair)]
    shared = any(a is b or bool(np.shares_memory(a, b)) for a, b in arrays)
    fixed = any(isinstance(out, np.ndarray) and not out.flags.writeable for out in (early, late))
    return {
        "then": then, "now": early, "late": late, "single": single, "shared": shared,
        "fixed": fixed,
    }  # fmt: skip


def refused(comm, target, x, *rest):
    """Call with what can't be done: the name of the exception, or None."""
    try:
        find(target)(comm, x, *rest)
    except Exception as error:
        return type(error).__name__
    return None


def formulas(comm, target, calls):
    """Call ``function(nbytes, world_size, machine)`` of a list of them, on one rank.

    Each call is ``(nbytes, world_size, alpha_s, beta_s_per_byte)``. Answers are those of
    ``ringside.checking.inside.several``.
    """
    machines = [
        (nbytes, world_size, Machine("asked", alpha_s=alpha_s, beta_s_per_byte=beta))
        for nbytes, world_size, alpha_s, beta in calls
    ]
    return several(comm, target, machines)
