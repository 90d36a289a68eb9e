"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The ``try_...`` functions are for you: they run what a verdict names.
"""

import numpy as np
import offload_run
from gpt_sizes import Sizes
from offload_model import Layer, simulate

from ringside.checking import find

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
