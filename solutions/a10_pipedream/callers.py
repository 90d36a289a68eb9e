"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be made or looked at inside a
rank, they ask for here. A verdict names the same functions in its line.
"""

import numpy as np
import profiles
from model import Piece

from ringside.checking import find

# -- partition -------------------------------------------------------------------------------------


def partition_profile(told):
    """A profile: "VGG16", ``(seed, num_layers, weights, outputs)`` of ``drawn``, or numbers."""
    if isinstance(told, str):
        return getattr(profiles, told)
    if isinstance(told, tuple):
        seed, *rest = told
        return profiles.drawn(np.random.default_rng(seed), *rest)
    return [profiles.Layer(*numbers) for numbers in told]


def partition_arguments(function, call):
    """What a function of ``partition.py`` is called with: bytes per second become a machine."""
    told, given, *rest = call
    rest = [profiles.link(rest[0]), *rest[1:]] if rest else []
    return partition_profile(told), given, *rest


def partition_answers(comm, target, calls):
    """Call a function of ``partition.py`` with each of a list of arguments.

    Returns:
        Per call ``(result, None)``, or ``(None, "ValueError")``: the exception's type.
    """
    function, answers = find(target), []
    for call in calls:
        arguments = partition_arguments(target, call)
        before = list(arguments[0])
        try:
            answer = function(*arguments), None
        except Exception as error:
            answer = None, type(error).__name__
        kept = before == arguments[0]
        answers.append(answer if kept else (None, "nothing, but it changed the profile"))
    return answers


def try_partition(function, *call):
    """Call a function of ``partition.py`` and show what it gives; of a plan also what it costs."""
    import partition

    arguments = partition_arguments(function, call)
    answer = getattr(partition, function)(*arguments)
    print(answer)
    if function == "partition":
        profile, _, machine, *_ = arguments
        needed = partition.plan_bytes(profile, answer)
        print(f"takes {partition.plan_s(profile, answer, machine):.9g} s; {needed} bytes a worker.")


# -- axonn -----------------------------------------------------------------------------------------


def axonn_step(comm, params, batch_sizes, limit, inputs, targets, forward_s, backward_s):
    """One step of ``axonn.run`` on this stage.

    Args:
        forward_s, backward_s: seconds of the piece's passes, one a microbatch.

    Returns:
        A dict: ``loss``, ``grads``, and ``kept``: are parameters, inputs and targets as they were,
        and the lists of them?
    """
    piece = Piece(comm.Get_rank(), forward_s, backward_s)
    lists = [each for each in (params, inputs, targets) if each is not None]
    before = [[np.array(array) for array in each] for each in lists]
    given = [list(each) for each in lists]
    sizes = list(batch_sizes)
    loss, grads = find("axonn:run")(comm, piece, params, sizes, limit, inputs, targets)
    kept = sizes == list(batch_sizes)
    for now, then, arrays in zip(lists, given, before, strict=True):
        kept = kept and [id(each) for each in now] == [id(each) for each in then]
        kept = kept and all(map(np.array_equal, now, arrays))
    loss = loss.item() if isinstance(loss, np.generic) else loss
    return {"loss": loss, "grads": list(grads), "kept": bool(kept)}


def axonn_second_step(comm, params, batch_sizes, limit, inputs, targets, forward_s, backward_s):
    """What ``axonn_step`` returns of a second step, after one with other numbers."""
    turned = [each and each[::-1] for each in (list(batch_sizes), inputs, targets)]
    halved = [each / 2 for each in params]
    times = forward_s[::-1], backward_s[::-1]
    axonn_step(comm, halved, turned[0], limit, *turned[1:], *times)
    return axonn_step(comm, params, batch_sizes, limit, inputs, targets, forward_s, backward_s)
