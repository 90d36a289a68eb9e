"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be looked at from inside, such
as memory and arrays that share it, they ask for here.
"""

import contextlib
import tracemalloc
from copy import deepcopy
from importlib import import_module
from pathlib import Path

import numpy as np
from given.gpt_memory import Sizes, num_parameters
from given.layers import make_layers
from given.offload_model import Layer

import ringside
from ringside.checking.callers import find
from ringside.checking.inside import same, several

# -- partition -------------------------------------------------------------------------------------


def partition_calls(comm, target, calls):
    """Call a function of ``partition.py`` with what comes of each of a list of arguments.

    ``layout`` gets the list of arrays in which some stand twice; where there are such ones, another
    call with the list the other way round comes before. ``flatten`` may get arrays with gaps in
    memory, and another call follows before the result is looked at. ``views`` gets a vector of
    which all elements are doubled before the result is looked at.

    Returns:
        Per call ``(result, exception's type, changed)``, as ``ringside.checking.inside.several``
        does; a result that shares memory where it must not counts as a change.
    """
    function, answers, alive = find(target), [], []
    for arguments in calls:
        given = tuple(deepcopy(arguments))
        alive.append(given)  # so that arrays of two calls have different ids
        if function.__name__ == "layout":
            arrays, order, world_size = given
            given = [arrays[index] for index in order], world_size
            if len(set(order)) < len(order):
                function(given[0][::-1], world_size)
        elif function.__name__ == "flatten":
            *given, spread = given
            if spread:
                given[0] = [spread_out(array) for array in given[0]]
        before = deepcopy(given)
        try:
            answer, error = function(*given), ""
        except Exception as raised:
            answers.append((None, type(raised).__name__, not same(given, before)))
            continue
        if function.__name__ == "flatten" and spread:
            function([0 * array for array in given[0]], *given[1:])
        changed = not same(given, before)
        if function.__name__ == "flatten" and isinstance(answer, np.ndarray):
            changed = changed or any(np.shares_memory(answer, array) for array in given[0])
        if function.__name__ == "views":
            given[0][:] *= 2
            answer = [np.array(view) for view in answer]
        answers.append((answer, error, changed))
    return answers


def spread_out(array):
    """The same array, in memory by columns and with gaps."""
    wide = np.full([2 * d for d in array.shape], 77, array.dtype, order="F")
    wide[(slice(None, None, 2),) * array.ndim] = array
    return wide[(slice(None, None, 2),) * array.ndim]


# -- zero1 -----------------------------------------------------------------------------------------


def stepped(comm, params, gradients, lrs, decay, clip, state=None):
    """One step for each gradient, from the state that is given or from the beginning.

    Returns:
        A dict: ``params`` and ``state`` after the last step, ``norms`` of each; whether an argument
        ``changed``, and whether new parameters are ``shared`` with one, or can't be written to.
    """
    zero1 = import_module("zero1")
    state = zero1.init_state(comm, params) if state is None else state
    norms, changed, shared = [], False, False
    for gradient, lr in zip(gradients, lrs, strict=True):
        given = [params, gradient, state]
        before = deepcopy(given)
        params, state, norm = zero1.step(comm, params, gradient, state, lr, decay, clip)
        norms.append(norm)
        changed = changed or not same(given, before)
        shared = shared or any(np.shares_memory(params, array) for array in given[:2])
        shared = shared or not params.flags.writeable
    return {
        "params": params, "state": state, "norms": norms, "changed": changed, "shared": shared,
    }  # fmt: skip


# -- zero2 -----------------------------------------------------------------------------------------


def backward(comm, params, x, grad_output, watched):
    """Forward pass, then your backward pass.

    Returns:
        A dict: ``grad_input``, ``shard``, and if ``watched`` the most bytes that were ``held`` when
        a layer's backward pass began.
    """
    layers, held = make_layers(params), []
    for layer in layers:
        x = layer.forward(x)
        if watched:
            layer.backward = looked_at(layer.backward, held)
    with watched_memory() if watched else contextlib.nullcontext():
        grad_input, shard = import_module("zero2").backward(comm, layers, grad_output)
    return {"grad_input": grad_input, "shard": shard, "held": max(held, default=0)}


@contextlib.contextmanager
def watched_memory():
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def looked_at(function, held):
    """The function, which notes first what memory is held."""

    def called(grad_output):
        held.append(held_bytes())
        return function(grad_output)

    return called


def held_bytes():
    """Bytes that your files and the layers have allocated, without those of the kit."""
    kit, here = str(Path(ringside.__file__).parent), Path(__file__)
    ours = [f"{kit}/*", str(here), tracemalloc.__file__, contextlib.__file__]
    filters = [tracemalloc.Filter(False, pattern) for pattern in ours]
    statistics = tracemalloc.take_snapshot().filter_traces(filters).statistics("filename")
    return sum(entry.size for entry in statistics)


# -- memory ----------------------------------------------------------------------------------------


def memory_calls(comm, target, calls):
    """Call a function of ``memory.py`` with each of a list of ``(arguments, options)``.

    Arguments that are tuples become ``Sizes``.

    Returns:
        Per call ``((result, parts), exception's type, changed)``; parts are what the module's other
        functions answer that the result is made of.
    """
    memory = import_module("memory")

    def asked(name, arguments, options=None):
        given = [Sizes(*each) if isinstance(each, tuple) else each for each in arguments]
        return getattr(memory, name)(*given, **(options or {}))

    def parts(name, result, arguments, options):
        if name == "activation_bytes" and options == {"recompute": True}:
            sizes, batch = arguments
            return [asked(name, [(1, *sizes[1:]), batch])]
        if name == "step_bytes":
            sizes, batch, *ranks_and_stage = arguments
            state = asked("state_bytes", [num_parameters(Sizes(*sizes)), *ranks_and_stage])
            return [state, asked("activation_bytes", [sizes, batch], options)]
        if name in ("most_layers", "fewest_ranks"):
            better = result + 1 if name == "most_layers" else result - 1
            numbers = [number for number in (result, better) if number]
            return [arguments[0], *(step(name, n, arguments, options) for n in numbers)]
        return []

    def step(name, number, arguments, options):
        """``step_bytes`` with so many layers, or on so many ranks."""
        _, sizes, batch, *rest = arguments
        if name == "most_layers":
            return asked("step_bytes", [(number, *sizes[1:]), batch, *rest], options)
        return asked("step_bytes", [sizes, batch, number, *rest], options)

    def answered(arguments, options):
        name = target.partition(":")[2]
        if isinstance(arguments[0], list):  # a capacity by the module's own answers
            number, spare = arguments[0]
            arguments = [step(name, number, arguments, options) + spare, *arguments[1:]]
        result = asked(name, arguments, options)
        return result, parts(name, result, arguments, options)

    return [several_of(answered, call) for call in calls]


def several_of(function, call):
    """``(result, exception's type, changed)`` of one call."""
    try:
        return function(*call), "", False
    except Exception as error:
        return None, type(error).__name__, False


# -- offload ---------------------------------------------------------------------------------------


def plans(comm, target, calls):
    """Call ``offload.schedule`` with layers of each of a list of arguments."""
    calls = [([Layer(*numbers) for numbers in layers], *limits) for layers, *limits in calls]
    return several(comm, target, calls)
