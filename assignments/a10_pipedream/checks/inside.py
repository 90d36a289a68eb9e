"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be made or looked at inside a
rank, such as a piece and memory, they ask for here.
"""

import tracemalloc
from copy import deepcopy

import numpy as np
from given.model import Piece
from given.profiles import layers_of, link

from ringside.checking import find
from ringside.checking.inside import same, several


def trained(
    comm, params, batch_sizes, lr, inputs, targets, vertical_sync, costs, before, watched
):  # fmt: skip
    """``stash.train`` on this stage.

    Args:
        costs: seconds of a forward and a backward pass.
        before: another call comes first, with other parameters and the minibatches turned round.
        watched: watch memory.

    Returns:
        A dict: ``params``, ``losses``; ``kept`` (is all that was given as it was?); ``shared`` (is
        a result the same memory as an array that was given?); ``peak``, of allocated bytes.
    """
    train, piece = find("stash:train"), Piece(comm.Get_rank(), *costs)
    options = {"vertical_sync": True} if vertical_sync else {}
    if before:
        halved = [param / 2 for param in params]
        turned = [data and data[::-1] for data in (batch_sizes, inputs, targets)]
        train(comm, piece, halved, turned[0], lr, *turned[1:], **options)
    arguments = params, batch_sizes, inputs, targets
    copies, peak = deepcopy(arguments), 0
    if watched:
        tracemalloc.start()
    try:
        returned = train(comm, piece, params, batch_sizes, lr, inputs, targets, **options)
        if watched:
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    is_pair = isinstance(returned, tuple) and len(returned) == 2
    arrays, losses = returned if is_pair else (returned, None)
    return {
        "params": arrays,
        "losses": losses,
        "kept": same(arguments, copies),
        "shared": shares_memory(arrays, [*params, *(inputs or []), *(targets or [])]),
        "peak": peak,
    }


def shares_memory(values, inputs):
    """Is one of the results the same memory as an array that was given?"""
    values = values if isinstance(values, list | tuple) else [values]
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    return any(bool(np.shares_memory(array, one)) for array in arrays for one in inputs)


def stepped(comm, params, batch_sizes, limit, inputs, targets, forward_s, backward_s, before):
    """``axonn.run`` on this stage.

    Args:
        forward_s, backward_s: seconds of the piece's passes, one a microbatch.
        before: another step comes first, with other parameters and the microbatches turned round.

    Returns:
        A dict: ``loss``, ``grads``, and ``kept``: is all that was given as it was?
    """
    if before:
        turned = [data and data[::-1] for data in (batch_sizes, inputs, targets)]
        halved, times = [param / 2 for param in params], (forward_s[::-1], backward_s[::-1])
        stepped(comm, halved, turned[0], limit, *turned[1:], *times, False)
    arguments = params, batch_sizes, inputs, targets
    copies = deepcopy(arguments)
    piece = Piece(comm.Get_rank(), forward_s, backward_s)
    loss, grads = find("axonn:run")(comm, piece, params, batch_sizes, limit, inputs, targets)
    return {"loss": loss, "grads": list(grads), "kept": same(arguments, copies)}


def planner(comm, target, calls):
    """Call a function of ``partition.py``: profiles are made here, and of bytes/s a machine."""
    answers = []
    for profile, *rest in calls:
        if len(rest) > 1:
            rest[1] = link(rest[1])
        answers += several(comm, target, [(layers_of(profile), *rest)])
    return answers
