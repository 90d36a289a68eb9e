"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see messages and results only. What must be made or looked at inside a
rank, they ask for here. A verdict names the same functions in its line.
"""

import tracemalloc

import numpy as np
import profiles
from model import Piece

from ringside.checking import find

# -- stash -----------------------------------------------------------------------------------------


def stash_trained(
    comm, params, batch_sizes, lr, inputs, targets, vertical_sync=False, costs=(1e-6, 2e-6),
    calls=1, memory=False,
):  # fmt: skip
    """``stash.train`` on this stage.

    Args:
        costs: seconds of a forward and a backward pass.
        calls: 2 for what the second call gives, after one with other parameters and the
            minibatches in the opposite order.
        memory: watch it, and tell the peak of allocated bytes.

    Returns:
        A dict: ``params``, ``losses``; ``kept`` (is all that was given as it was?); ``shared`` (is
        a result the same memory as a parameter that was given?); ``peak`` or None.
    """
    piece = Piece(comm.Get_rank(), *costs)
    options = {"vertical_sync": True} if vertical_sync else {}
    for _ in range(calls - 1):
        halved = [param / 2 for param in params]
        turned = [each and each[::-1] for each in (batch_sizes, inputs, targets)]
        find("stash:train")(comm, piece, halved, turned[0], lr, *turned[1:], **options)
    given = [*params, *(inputs or []), *(targets or [])]
    before, lists = [np.array(each) for each in given], _held(params, inputs, targets)
    train = find("stash:train")
    if memory:
        tracemalloc.start()
    try:
        told = train(comm, piece, params, batch_sizes, lr, inputs, targets, **options)
        peak = tracemalloc.get_traced_memory()[1] if memory else None
    finally:
        tracemalloc.stop()
    kept = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(given, before, strict=True))
    kept = kept and lists == _held(params, inputs, targets)
    trained, losses = told if isinstance(told, tuple) and len(told) == 2 else (told, None)
    shared = isinstance(trained, list | tuple) and any(
        np.shares_memory(a, b) for a in trained if isinstance(a, np.ndarray) for b in given
    )
    return {
        "params": trained, "losses": _stash_plain(losses), "kept": bool(kept), "shared": shared,
        "peak": peak,
    }  # fmt: skip


def _held(*lists):
    """What lists have in them, to be compared with what they have later."""
    return [[id(item) for item in each or ()] for each in lists]


def _stash_plain(losses):
    """NumPy's numbers as Python's; all else as it is."""
    if not isinstance(losses, list | tuple):
        return losses
    return [each.item() if isinstance(each, np.generic) else each for each in losses]


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
    given = [*params, *(inputs or []), *(targets or [])]
    before, lists = [np.array(each) for each in given], _held(params, inputs, targets)
    sizes = list(batch_sizes)
    loss, grads = find("axonn:run")(comm, piece, params, sizes, limit, inputs, targets)
    kept = sizes == list(batch_sizes) and lists == _held(params, inputs, targets)
    kept = kept and all(map(np.array_equal, given, before))
    loss = loss.item() if isinstance(loss, np.generic) else loss
    return {"loss": loss, "grads": list(grads), "kept": bool(kept)}


def axonn_second_step(comm, params, batch_sizes, limit, inputs, targets, forward_s, backward_s):
    """What ``axonn_step`` returns of a second step, after one with other numbers."""
    turned = [each and each[::-1] for each in (list(batch_sizes), inputs, targets)]
    halved = [each / 2 for each in params]
    times = forward_s[::-1], backward_s[::-1]
    axonn_step(comm, halved, turned[0], limit, *turned[1:], *times)
    return axonn_step(comm, params, batch_sizes, limit, inputs, targets, forward_s, backward_s)
