"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside, such
as inputs that can't be written to, they ask for here. Each ``..._layer`` runs a forward pass and a
backward pass, and returns all that they give as one flat tuple of arrays:

    ringside run callers.py:mlp_layer --ranks 3 -- --n 5 --widths 4,7
"""

import tracemalloc
from copy import deepcopy
from importlib import import_module

import numpy as np

from ringside.checking.callers import arrays_in, find


def column_layer(comm, x, W, b, grad_y):
    """``linear.py``, columns: ``(y, grad_x, grad_W, grad_b)``."""
    return _ended(*_begun(comm, "column_layer", x, W, b, grad_y))


def row_layer(comm, x, W, b, grad_y):
    """``linear.py``, rows: ``(y, grad_x, grad_W, grad_b)``."""
    return _ended(*_begun(comm, "row_layer", x, W, b, grad_y))


def mlp_layer(comm, x, params, grad_y):
    """``mlp.py``: ``(y, grad_x, *grads)``."""
    return _ended(*_begun(comm, "mlp_layer", x, params, grad_y))


def attention_layer(comm, x, params, head_dim, grad_y):
    """``attention.py``: ``(y, grad_x, *grads)``."""
    return _ended(*_begun(comm, "attention_layer", x, params, head_dim, grad_y))


def loss_layer(comm, logits, y, vocab_size, grad_losses):
    """``cross_entropy.py``: ``(losses, grad_logits)``."""
    return _ended(*_begun(comm, "loss_layer", logits, y, vocab_size, grad_losses))


def _begun(comm, layer, *args):
    """A forward pass: its result, and a function that makes the backward pass.

    Args:
        args: those of the layer's function; the last one is the gradient that comes back.
    """
    if layer in ("column_layer", "row_layer"):
        linear, cut = import_module("linear"), layer.removesuffix("_layer")
        x, W, b, grad = args
        y = getattr(linear, f"{cut}_forward")(comm, x, W, b)
        return y, lambda: getattr(linear, f"{cut}_backward")(comm, x, W, grad)
    *given, grad = args
    module = import_module(
        "cross_entropy" if layer == "loss_layer" else layer.removesuffix("_layer")
    )
    y, saved = module.forward(comm, *given)

    def backward():
        found = module.backward(comm, saved, grad)
        if layer == "loss_layer":
            return (found,)
        grad_x, grads = found
        return (grad_x, *grads)

    return y, backward


def _ended(y, backward):
    """All that both passes give, as one flat tuple."""
    return (y, *backward())


def looked_at(comm, layer, order, *args):
    """Call with arrays that have gaps, and look at them afterwards.

    Those of even ranks can't be written to.

    Args:
        order: of the arrays' elements in memory, "C" (by rows) or "F" (by columns).

    Returns:
        ``(results, changed, shared, fixed)``: did an argument change; does a result share memory
        with one; can an array of the result not be written to?
    """
    wide = [_with_gaps(arg, order) for arg in args]
    given = list(arrays_in(wide))
    before = [array.copy() for array in given]
    for array in given:
        array.flags.writeable = comm.rank % 2 == 1
    results = find(f"callers:{layer}")(comm, *wide)
    made = list(arrays_in(results))
    changed = any(not np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    shared = any(np.shares_memory(a, b) for a in made for b in given)
    fixed = any(not array.flags.writeable for array in made)
    return results, changed, shared, fixed


def twice(comm, layer, first, second):
    """Call with one tuple of arguments, then another: the first results then and now."""
    function = find(f"callers:{layer}")
    early = function(comm, *first)
    then = [np.array(each) for each in early]
    late = function(comm, *second)
    return then, early, late


def updated(comm, layer, first, second):
    """Call, write ``second`` into the same arrays, as an update does, and call again."""
    function, given = find(f"callers:{layer}"), deepcopy(first)
    function(comm, *given)
    for array, other in zip(arrays_in(given), arrays_in(second), strict=True):
        array[...] = other
    return function(comm, *given)


def interleaved(comm, layer, first, second, last_first):
    """Two forward passes, then their two backward passes: all that each of these needs is its own.

    Args:
        last_first: backwards in the other order, as through two layers of a network.
    """
    begun = [_begun(comm, layer, *args) for args in (first, second)]
    found = [None, None]
    for place in (1, 0) if last_first else (0, 1):
        found[place] = _ended(*begun[place])
    return found


def shards(comm, target, calls):
    """Every ``shard(*whole, world_size, rank)`` of a list of ``(*whole, world_size)``, on one rank.

    The whole arrays lie in memory by rows, in every other call by columns.

    Returns:
        Per call and rank ``(parts, shared, gaps)``: does a part share memory with what was given;
        is one not contiguous?
    """
    shard, found = find(target), []
    for number, (*whole, world_size) in enumerate(calls):
        whole = _stored(whole, "CF"[number % 2])
        given = list(arrays_in(whole))
        for rank in range(world_size):
            parts = shard(*whole, world_size, rank)
            made = list(arrays_in(parts))
            shared = any(np.shares_memory(a, b) for a in made for b in given)
            held = any(isinstance(a.base, np.ndarray) and a.base.nbytes > a.nbytes for a in made)
            gaps = any(not array.flags.c_contiguous for array in made)
            found.append((parts, shared or held, gaps))
    return found


def memory(comm, module, args, grad_y):
    """Bytes that ``forward`` has allocated and keeps when it returns; and what both passes give."""
    forward, backward = find(f"{module}:forward"), find(f"{module}:backward")
    tracemalloc.start()
    try:
        y, saved = forward(comm, *args)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    grad_x, grads = backward(comm, saved, grad_y)
    return held, (y, grad_x, *grads)


def evaluated(comm, target, calls):
    """Call a function that needs no ranks, with each of a list of argument tuples."""
    function = find(target)
    return [function(*arguments) for arguments in calls]


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


def _stored(value, order):
    """The same values by rows ("C") or by columns ("F"), not to be written to."""
    if isinstance(value, np.ndarray):
        value = np.array(value, order=order)
        value.flags.writeable = False
        return value
    if isinstance(value, list | tuple):
        return type(value)(_stored(each, order) for each in value)
    return value
