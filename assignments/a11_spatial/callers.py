"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside they ask
for here:

    ringside run callers.py:conv_both --ranks 3 -- --heights '[4, 3, 5]' --k 3
"""

import tracemalloc

import numpy as np
from conv_sizes import Layer
from layers import Conv

from ringside import Machine
from ringside.checking import find

# -- halo ------------------------------------------------------------------------------------------


def halo_looked_at(comm, x, halo_width):
    """Two calls of ``halo.exchange``, of x with gaps that can't be written to, and of 2 x.

    Returns:
        ``(first, second, changed, shared)``: both results, the second one halved, looked at after
        the second call; was x changed; does a result share memory with it or with the other one?
    """
    wide = np.full((*x.shape, 2), 77, x.dtype)
    wide[..., 0] = x
    wide.flags.writeable = comm.rank % 2 == 1
    given = wide[..., 0]
    first, second = (find("halo:exchange")(comm, each, halo_width) for each in (given, 2 * given))
    changed = not np.array_equal(given, x) or bool(np.any(wide[..., 1] != 77))
    return first, times(0.5, second), changed, overlapping([wide, first, second])


def halo_refused(comm, x, halo_width, right):
    """``halo.exchange`` where a part may be too low.

    Returns:
        ``(error, is_right)``: the exception's type, empty if there was none; and whether the result
        is right.
    """
    try:
        value = find("halo:exchange")(comm, x, halo_width)
    except Exception as error:
        return type(error).__name__, False
    return "", bool(np.array_equal(value, right))


# -- conv ------------------------------------------------------------------------------------------


def conv_forward(comm, weight, bias, stride, x, first_row):
    """The forward pass: y."""
    return find("conv:forward")(comm, Conv(weight, bias, stride), x, first_row)[0]


def conv_both(comm, weight, bias, stride, x, first_row, dy):
    """Both passes: ``(y, dx, dw, db)``."""
    conv = Conv(weight, bias, stride)
    y, saved = find("conv:forward")(comm, conv, x, first_row)
    dx, dw, db = find("conv:backward")(comm, conv, saved, dy)
    return y, dx, dw, db


def conv_looked_at(comm, weight, bias, stride, x, first_row, dy):
    """Both passes, twice, with arrays that have gaps; even ranks' can't be written to.

    The second call has 2 x and half the filters, so that y is the same.

    Returns:
        ``(first, second, changed, shared)``: the results, looked at after the second call, the
        second ones scaled to be as the first; did an argument change; does a result share memory
        with one or with another result?
    """
    wide = [np.full((*each.shape, 2), 77, each.dtype) for each in (x, dy)]
    for array, each in zip(wide, (x, dy), strict=True):
        array[..., 0] = each
        array.flags.writeable = comm.rank % 2 == 1
    given = weight.copy(), bias.copy(), stride, wide[0][..., 0], first_row, wide[1][..., 0]
    first = conv_both(comm, *given)
    early = [np.array(each) for each in first]
    second = conv_both(comm, weight / 2, bias.copy(), stride, 2 * given[3], *given[4:])
    kept = np.array_equal(given[0], weight) and np.array_equal(given[1], bias)
    kept = kept and np.array_equal(given[3], x) and np.array_equal(given[5], dy)
    changed = not kept or any(bool(np.any(each[..., 1] != 77)) for each in wide)
    same = all(map(np.array_equal, early, first))
    shared = overlapping([*given[:2], *wide, *first, *second]) or not same
    y, dx, dw, db = second
    return first, (y, times(2, dx), times(0.5, dw), db), changed, shared


# -- cost ------------------------------------------------------------------------------------------


def cost_numbers(comm, target, calls):
    """Call a function of ``cost.py`` with each of a list of arguments.

    The first one is a list of layers, as tuples of numbers. A name of a machine becomes a
    ``Machine``.

    Returns:
        Per call the result, or the type of an exception: ``"ValueError"``.
    """
    answers = []
    for layers, *others in calls:
        given = [Machine.load(each) if isinstance(each, str) else each for each in others]
        try:
            answers.append(find(target)([Layer(*each) for each in layers], *given))
        except ValueError as error:
            answers.append(type(error).__name__)
    return answers


# -- what several of them need ---------------------------------------------------------------------


def times(factor, value):
    """An array times a power of two; what is no array stays as it is."""
    return value * value.dtype.type(factor) if isinstance(value, np.ndarray) else value


def overlapping(arrays):
    """Do two of these share memory?"""
    found = [array for array in arrays if isinstance(array, np.ndarray) and array.size]
    return any(np.shares_memory(a, b) for k, a in enumerate(found) for b in found[:k])


# -- ring_attention --------------------------------------------------------------------------------


def ring_attention_looked_at(comm, q, k, v, lengths, causal=False):
    """Two calls of ``ring_attention.attention`` with arrays that have gaps, the second with 2 v.

    Returns:
        ``(first, second, changed, shared)``: both results, the second one halved, looked at after
        the second call; was an argument changed, and does a result share memory with one, or with
        the other result?
    """
    larger = [np.full((*each.shape, 2), 77, each.dtype) for each in (q, k, v)]
    given = [each[..., 0] for each in larger]
    for own, each in zip(given, (q, k, v), strict=True):
        own[...] = each
    told = list(lengths)
    q_given, k_given, v_given = given
    first, second = (
        find("ring_attention:attention")(comm, q_given, k_given, each, told, causal)
        for each in (v_given, 2 * v_given)
    )
    changed = told != list(lengths) or any(bool(np.any(each[..., 1] != 77)) for each in larger)
    changed = changed or not all(map(np.array_equal, given, (q, k, v)))
    return first, times(0.5, second), changed, overlapping([*larger, first, second])


def ring_attention_held(comm, q, k, v, lengths, causal=False, bound=None):
    """``ring_attention.attention``, and the most bytes that were allocated at a time."""
    tracemalloc.start()
    try:
        result = find("ring_attention:attention")(comm, q, k, v, lengths, causal)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return result, peak


def ring_attention_refused(comm, what):
    """``ring_attention.attention`` on two ranks with arguments that can't be right: its error."""
    heads = 3 if what == "heads" else 2
    q, k = np.ones((1, heads, 2, 4)), np.ones((1, 2, 2, 4))
    lengths = {"lengths": [2, 2, 2], "positions": [3, 3]}.get(what, [2, 2])
    return error_of("ring_attention:attention", comm, q, k, k, lengths)


def error_of(target, *arguments):
    """The type of the exception that a call raises; empty if it returns."""
    try:
        find(target)(*arguments)
    except Exception as error:
        return type(error).__name__
    return ""
