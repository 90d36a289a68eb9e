"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside, such
as memory and arrays that share it, they ask for here.
"""

import tracemalloc
from pathlib import Path

import numpy as np
import offload_run
from gpt_sizes import Sizes
from layers import make_layers
from offload_model import Layer, simulate

import ringside
from ringside.checking import find

# -- partition -------------------------------------------------------------------------------------


def partition_calls(comm, target, calls):
    """Call one of the functions with each of a list of arguments, in this order of modules.

    ``flatten`` may have a fourth argument, True: arrays lie in memory by columns and with gaps, and
    another call follows before the result is looked at.
    ``layout`` is called with ``(arrays, same, world_size)``: entry k of the list of parameters is
    ``arrays[same[k]]``, so a number that stands twice in ``same`` is a tied parameter. Where there
    are such ones, another call with the list the other way round comes before.

    Returns:
        Per call ``(result, None, changed)``, or ``(None, "ValueError", changed)``: the exception's
        type; and whether an argument was changed. For ``views`` the result is looked at after all
        elements of ``flat`` were doubled.
    """
    function, answers = find(target), []
    for arguments in calls:
        given = arguments
        if target.endswith(":layout"):
            arrays, same, world_size = arguments
            given = [arrays[index] for index in same], world_size
            if len(set(same)) < len(same):
                function(given[0][::-1], world_size)
        if target.endswith(":flatten") and len(arguments) == 4:
            given = [_spread(each) for each in arguments[0]], *arguments[1:3]
        if target.endswith(":views"):
            given = np.array(arguments[0]), *arguments[1:]
        before = _copied(given)
        try:
            answer, error = function(*given), None
            if target.endswith(":flatten") and len(arguments) == 4:
                function([0 * each for each in given[0]], *given[1:])
        except Exception as raised:
            answer, error = None, type(raised).__name__
        changed = _differs(given, before)
        if target.endswith(":flatten") and isinstance(answer, np.ndarray):
            changed = changed or any(np.shares_memory(answer, each) for each in given[0])
        if target.endswith(":views") and answer is not None:
            given[0][:] *= 2
            answer = [np.array(each) for each in answer]
        answers.append((answer, error, changed))
    return answers


def _spread(array):
    """The same array, by columns and with gaps."""
    wide = np.full([2 * d for d in array.shape], 77, array.dtype, order="F")
    wide[(slice(None, None, 2),) * array.ndim] = array
    return wide[(slice(None, None, 2),) * array.ndim]


def _copied(value):
    """A copy of arrays in lists, tuples and dicts at any depth."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(each) for each in value]
    return np.array(value) if isinstance(value, np.ndarray) else value


def _differs(value, before):
    if isinstance(value, dict):
        return list(value) != list(before) or any(_differs(value[k], before[k]) for k in value)
    if isinstance(value, list | tuple):
        pairs = zip(value, before, strict=False)
        return len(value) != len(before) or any(_differs(a, b) for a, b in pairs)
    return not np.array_equal(value, before) if isinstance(value, np.ndarray) else value != before


# -- zero1 -----------------------------------------------------------------------------------------


def zero1_steps(comm, params, gradients, lrs, decay, clip, state=None):
    """One step for each gradient, from the state that is given or from the beginning.

    Returns:
        ``(params, state, norms)``: after the last step, and the norm of each.
    """
    init_state, step = find("zero1:init_state"), find("zero1:step")
    state = init_state(comm, params) if state is None else state
    norms = []
    for gradient, lr in zip(gradients, lrs, strict=True):
        params, state, norm = step(comm, params, gradient, state, lr, decay, clip)
        norms.append(norm)
    return params, state, norms


def zero1_looked_at(comm, params, gradients, lrs, decay, clip):
    """The same, with arguments that can't be written to on even ranks, looked at afterwards.

    Returns:
        ``(params, state, norms, changed, shared)``: did an argument change; does a result share
        memory with one, or can't it be written to?
    """
    init_state, step = find("zero1:init_state"), find("zero1:step")
    state, norms, changed, shared = init_state(comm, params), [], False, False
    for gradient, lr in zip(gradients, lrs, strict=True):
        given = params, gradient, state
        before = _copied(given)
        for array in given[:2]:
            array.flags.writeable = comm.Get_rank() % 2 == 1
        params, state, norm = step(comm, params, gradient, state, lr, decay, clip)
        norms.append(norm)
        changed = changed or _differs(given, before)
        shared = shared or any(np.shares_memory(params, each) for each in given[:2])
        shared = shared or not params.flags.writeable
    return params, state, norms, changed, shared


# -- zero2 -----------------------------------------------------------------------------------------


def zero2_backward(comm, params, x, grad_output):
    """Forward pass, then your backward pass: ``(grad_input, shard)``."""
    layers = make_layers(params)
    for layer in layers:
        x = layer.forward(x)
    return find("zero2:backward")(comm, layers, grad_output)


def zero2_memory(comm, params, x, grad_output):
    """The same under watch: and the most that a rank held when a layer's pass began, in bytes."""
    layers, held = make_layers(params), []
    for layer in layers:
        x = layer.forward(x)
        layer.backward = _watched(layer.backward, held)
    tracemalloc.start()
    try:
        grad_input, shard = find("zero2:backward")(comm, layers, grad_output)
    finally:
        tracemalloc.stop()
    return grad_input, shard, max(held)


def _watched(backward, held):
    def looked_at(grad_output):
        held.append(_held_bytes())
        return backward(grad_output)

    return looked_at


def _held_bytes():
    """Bytes that your files and the layers have allocated, without those of the kit."""
    kit = str(Path(ringside.__file__).parent)
    ours = [f"{kit}/*", f"{Path(__file__).parent}/callers.py", tracemalloc.__file__]
    filters = [tracemalloc.Filter(False, pattern) for pattern in ours]
    found = tracemalloc.take_snapshot().filter_traces(filters).statistics("filename")
    return sum(each.size for each in found)


# -- memory ----------------------------------------------------------------------------------------


def memory_numbers(comm, target, calls):
    """Call a function of ``memory.py`` with each of a list of ``(arguments, options)``.

    Arguments that are tuples become ``Sizes``.

    Returns:
        Per call ``(result, None)``, or ``(None, "ValueError")``: the exception's type.
    """
    answers = []
    for arguments, options in calls:
        arguments = [Sizes(*each) if isinstance(each, tuple) else each for each in arguments]
        try:
            answers.append((find(target)(*arguments, **options), None))
        except Exception as error:
            answers.append((None, type(error).__name__))
    return answers


# -- offload ---------------------------------------------------------------------------------------


def layers_of(numbers):
    """Layers, from ``(forward_s, backward_s, nbytes)`` of each."""
    return [Layer(*each) for each in numbers]


def offload_plans(comm, target, calls):
    """Call ``offload.schedule`` with each of a list of ``(numbers of layers, capacity, host)``.

    Returns:
        Per call ``(plan, None)``, or ``(None, "ValueError")``: the exception's type.
    """
    answers = []
    for numbers, capacity_bytes, host_bytes_per_s in calls:
        layers = layers_of(numbers)
        try:
            plan = find(target)(layers, capacity_bytes, host_bytes_per_s)
            kept = layers == layers_of(numbers)
            answers.append((plan, None) if kept else (None, "an input that was changed"))
        except Exception as error:
            answers.append((None, type(error).__name__))
    return answers


def offload_gradients(comm, hidden_widths, seed, capacity_bytes, host_bytes_per_s):
    """Plan for a small network, run it by the plan, and once more with everything kept."""
    weights, x = offload_run.drawn(np.random.default_rng(seed), hidden_widths)
    layers = [Layer(1, 2, 8 * len(x) * width) for width in hidden_widths]
    plan = find("offload:schedule")(layers, capacity_bytes, host_bytes_per_s)
    planned = offload_run.gradients(weights, x, plan, capacity_bytes)
    kept = offload_run.gradients(weights, x, ["keep"] * len(layers), 10**9)
    pairs = zip(planned, kept, strict=True)
    return list(plan), all(np.array_equal(a, b) for ab in pairs for a, b in zip(*ab, strict=True))


def try_offload(numbers, capacity_bytes, host_bytes_per_s):
    """Plan for layers of ``(forward_s, backward_s, nbytes)`` each, and say what the plan costs."""
    import offload

    layers = layers_of(numbers)
    plan = offload.schedule(layers, capacity_bytes, host_bytes_per_s)
    print(plan)
    time_s, peak = simulate(layers, plan, capacity_bytes, host_bytes_per_s)
    print(f"takes {time_s:.6g} s, and {peak} bytes at most.")
