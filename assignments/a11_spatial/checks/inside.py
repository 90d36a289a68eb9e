"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside they ask
for here.
"""

import copy
import tracemalloc

import numpy as np
from given.conv_sizes import Layer
from given.layers import Conv

from ringside import Machine
from ringside.checking import find
from ringside.checking.callers import arrays_in, copied, error_of, overlapping
from ringside.checking.inside import same, several


def looked_at(comm, target, *calls):
    """Two calls with arrays that have gaps; even ranks' can't be written to.

    Returns:
        A dict: ``early`` and ``second``, both results; ``first``, that of the first call as it is
        after the second one; ``changed``: is an argument not as it was; ``shared``: does an array
        of a result share memory with an argument, or with another array?
    """
    results, changed, arrays = [], False, []
    for given in calls:
        wide = [gapped(each, comm.rank % 2 == 1) for each in given]
        own = [each[..., 0] if isinstance(each, np.ndarray) else each for each in wide]
        before = copy.deepcopy(own)
        results.append(find(target)(comm, *own))
        changed = changed or not same(own, before)
        spaces = [each for each in wide if isinstance(each, np.ndarray)]
        changed = changed or any(bool(np.any(each[..., 1] != 77)) for each in spaces)
        arrays += [*spaces, *arrays_in(results[-1])]
        if len(results) == 1:
            early = copied(results[0])
    return {
        "early": early, "first": results[0], "second": results[1], "changed": changed,
        "shared": overlapping(arrays),
    }  # fmt: skip


def gapped(value, is_writeable):
    """An array with as many elements beside its own; what is none stays as it is."""
    if not isinstance(value, np.ndarray):
        return copy.copy(value)
    wide = np.full((*value.shape, 2), 77, value.dtype)
    wide[..., 0] = value
    wide.flags.writeable = is_writeable
    return wide


def tried(target, *arguments):
    """The type of the exception that a call raises, and the result; empty if it returns."""
    try:
        return "", find(target)(*arguments)
    except Exception as error:
        return type(error).__name__, None


# -- halo ------------------------------------------------------------------------------------------


def refused_halo(comm, x, halo_width):
    """``halo.exchange`` where a part may be too low: the exception's type, and the result."""
    return tried("halo:exchange", comm, x, halo_width)


# -- conv ------------------------------------------------------------------------------------------


def forward_pass(comm, weight, bias, stride, x, first_row):
    """The forward pass: y."""
    return find("conv:forward")(comm, Conv(weight, bias, stride), x, first_row)[0]


def both_passes(comm, weight, bias, stride, x, first_row, dy):
    """Both passes: ``(y, dx, dw, db)``."""
    conv = Conv(weight, bias, stride)
    y, saved = find("conv:forward")(comm, conv, x, first_row)
    dx, dw, db = find("conv:backward")(comm, conv, saved, dy)
    return y, dx, dw, db


# -- cost ------------------------------------------------------------------------------------------


def costs(comm, target, calls):
    """Call a function of ``cost.py`` with each of a list of arguments, and answer as ``several``.

    The first argument is a list of layers, as tuples of numbers. A name of a machine becomes a
    ``Machine``.
    """
    given = [
        (
            [Layer(*each) for each in layers],
            *(Machine.load(each) if isinstance(each, str) else each for each in others),
        )
        for layers, *others in calls
    ]
    return several(comm, target, given)


# -- ring_attention --------------------------------------------------------------------------------


def held_attention(comm, q, k, v, lengths, *options):
    """``ring_attention.attention``, and the most bytes that were allocated at a time."""
    tracemalloc.start()
    try:
        result = find("ring_attention:attention")(comm, q, k, v, lengths, *options)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return result, held


def refused_attention(comm, q, k, v, lengths, *options):
    """``ring_attention.attention`` with arguments that can't be right: its exception's type."""
    return error_of("ring_attention:attention", comm, q, k, v, lengths, *options)
