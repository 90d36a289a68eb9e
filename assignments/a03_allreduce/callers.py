"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside,
such as an input that is a slice of something, they ask for here.
"""

import numpy as np

from ringside.checking import find


def strided(comm, target, stride, x, *rest):
    """Call with every stride-th element of a longer array, read-only, and look at it afterwards.

    Returns:
        ``(result, shared, changed)``: does the result share memory with the input, did the
        longer array change?
    """
    longer = np.full(abs(stride) * len(x) + 1, 77, dtype=x.dtype)
    view = longer[: abs(stride) * len(x)][::stride]
    view[:] = x
    before = longer.copy()
    view.flags.writeable = longer.flags.writeable = False
    result = find(target)(comm, view, *rest)
    shared = isinstance(result, np.ndarray) and bool(np.shares_memory(result, longer))
    return result, shared, not np.array_equal(longer, before)


def twice(comm, target, first, second, *rest):
    """Call with one vector, another, and the first again; then look at the first result again.

    Between the first two calls is one with the second vector as float32, if it isn't that.

    Returns:
        ``(first result then, first result now, second result, shared, fixed, as float32)``: does
        one result share memory with another or with an input; can one not be written to?
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
    return then, early, late, shared, fixed, single


def special(comm, target, x, *rest):
    """Call with a vector that has NaN and infinities in it, which ``examples.py`` gives."""
    return find(target)(comm, x, *rest)


def refused(comm, target, x, *rest):
    """Call with what can't be done: the name of the exception, or None."""
    try:
        find(target)(comm, x, *rest)
    except Exception as error:
        return type(error).__name__
    return None


def formulas(comm, target, calls):
    """Call ``function(nbytes, world_size, machine)`` of a list of them, on one rank.

    Each call is ``(nbytes, world_size, alpha_s, beta_s_per_byte)``.
    """
    from ringside import Machine

    function = find(target)
    return [
        function(nbytes, world_size, Machine("asked", alpha_s=alpha_s, beta_s_per_byte=beta))
        for nbytes, world_size, alpha_s, beta in calls
    ]


def trees(comm, target, world_sizes):
    """Call ``double_tree(world_size)`` for each of a list of world sizes, on one rank."""
    function = find(target)
    return [function(world_size) for world_size in world_sizes]
