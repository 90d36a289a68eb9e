"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be looked at from inside, such
as inputs that can't be written to and memory that is kept, they ask for here.
"""

import tracemalloc
from copy import deepcopy
from importlib import import_module

import numpy as np

from ringside.checking.callers import arrays_in, copied, find

GAPS = {"gaps": "C", "gaps by columns": "F"}  # the order of elements in memory


def passes(comm, layer, how, first, second):
    """Forward and backward passes of a layer.

    Args:
        layer: "column", "row", "mlp", "attention" or "cross_entropy".
        how: "" (both passes once); "again" (then those of a second layer); "twice" (and the first
            results are looked at once more); "updated" (then once more, with the second layer's
            values in the first one's arrays); "in order" and "last first" (both forward passes,
            then both backward passes, in their order or the last one first); "gaps" and "gaps by
            columns" (arrays with gaps, which even ranks can't write to); "memory" (what the forward
            pass keeps).
        first, second: ``(x, parameters, ..., gradient)`` of this rank; ``second`` may be None.

    Returns:
        A dict: ``results``, a list of tuples ``(y, gradient of x, *gradients of parameters)``. With
        gaps also ``changed`` (did an argument change), ``shared`` (does a result share memory with
        one) and ``fixed`` (can't a result be written to); with "memory" ``held``, the bytes that
        the forward pass has allocated and keeps.
    """
    if how in GAPS:
        return _looked_at(comm, layer, GAPS[how], first)
    if how == "memory":
        tracemalloc.start()
        try:
            begun = _begun(comm, layer, *first)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return {"results": [_ended(begun)], "held": held}
    if how in ("twice", "again"):
        early = _ended(_begun(comm, layer, *first))
        then = copied(early)
        late = _ended(_begun(comm, layer, *second))
        return {"results": [then, early, late] if how == "twice" else [then, late]}
    if how == "updated":
        given = deepcopy(first)
        _ended(_begun(comm, layer, *given))
        for array, other in zip(arrays_in(given), arrays_in(second), strict=True):
            array[...] = other
        return {"results": [_ended(_begun(comm, layer, *given))]}
    if how in ("in order", "last first"):
        begun, results = [_begun(comm, layer, *each) for each in (first, second)], [None, None]
        for place in (1, 0) if how == "last first" else (0, 1):
            results[place] = _ended(begun[place])
        return {"results": results}
    return {"results": [_ended(_begun(comm, layer, *first))]}


def _begun(comm, layer, x, params, *more):
    """A forward pass: its result, and a function that makes the backward pass."""
    *given, grad = more
    if layer in ("column", "row"):
        linear, (W, b) = import_module("linear"), params
        y = getattr(linear, f"{layer}_forward")(comm, x, W, b)
        return y, lambda: getattr(linear, f"{layer}_backward")(comm, x, W, grad)
    module = import_module(layer)
    if layer == "cross_entropy":
        y, saved = module.forward(comm, x, *given)
        return y, lambda: (module.backward(comm, saved, grad),)
    y, saved = module.forward(comm, x, params, *given)

    def backward():
        grad_x, grads = module.backward(comm, saved, grad)
        return (grad_x, *grads)

    return y, backward


def _ended(begun):
    """All that both passes give, as one flat tuple."""
    y, backward = begun
    return (y, *backward())


def _looked_at(comm, layer, order, arguments):
    wide = [_with_gaps(each, order) for each in arguments]
    given = list(arrays_in(wide))
    before = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = comm.rank % 2 == 1
    results = _ended(_begun(comm, layer, *wide))
    made = list(arrays_in(results))
    return {
        "results": [results],
        "changed": any(not np.array_equal(a, b) for a, b in zip(given, before, strict=True)),
        "shared": any(np.shares_memory(a, b) for a in made for b in given),
        "fixed": any(not array.flags.writeable for array in made),
    }


def _with_gaps(value, order):
    """The same values, as every other element of larger arrays."""
    if isinstance(value, np.ndarray) and value.ndim:
        wide = np.full([2 * extent for extent in value.shape], 77, value.dtype, order)
        view = wide[(slice(None, None, 2),) * value.ndim]
        view[...] = value
        return view
    if isinstance(value, list | tuple):
        return type(value)(_with_gaps(each, order) for each in value)
    return value


def cut(target, whole, ranks, order):
    """Every ``shard(*whole, ranks, rank)``.

    Args:
        order: how the whole arrays lie in memory, by rows ("C") or by columns ("F").

    Returns:
        Per rank ``(parts, shared, gaps)``: does a part share memory with what was given; is one not
        contiguous?
    """
    shard, found = find(target), []
    whole = _stored(whole, order)
    given = list(arrays_in(whole))
    for rank in range(ranks):
        parts = shard(*whole, ranks, rank)
        made = list(arrays_in(parts))
        shared = any(np.shares_memory(a, b) for a in made for b in given)
        held = any(isinstance(a.base, np.ndarray) and a.base.nbytes > a.nbytes for a in made)
        gaps = any(not array.flags.c_contiguous for array in made)
        found.append((parts, shared or held, gaps))
    return found


def _stored(value, order):
    """The same values by rows ("C") or by columns ("F"), not to be written to."""
    if isinstance(value, np.ndarray):
        value = np.array(value, order=order)
        value.flags.writeable = False
        return value
    if isinstance(value, list | tuple):
        return type(value)(_stored(each, order) for each in value)
    return value
