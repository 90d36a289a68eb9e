"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be looked at from inside, such
as memory, they ask for here.
"""

import tracemalloc

import numpy as np
from given.actions import Action, Backward, BackwardInput, Forward, Pair, parse, text
from given.model import Piece
from given.replayed import passes

from ringside.checking.callers import find


def lists(comm, target, calls):
    """Call a function that makes a schedule for all stages.

    Args:
        calls: per call the number of stages S, that of microbatches, and what comes after the
            stage.

    Returns:
        Per call a list with ``(actions as text, what is wrong)`` of each stage, no exception's
        type, and no change, as ``ringside.checking.inside.several`` does.
    """
    function = find(target)
    return [
        ([_list(function, (num_stages, count, stage, *more)) for stage in range(num_stages)], "", 0)
        for num_stages, count, *more in calls
    ]


def _list(function, arguments):
    try:
        actions = function(*arguments)
    except Exception as error:
        return "", f"raised {type(error).__name__}"
    wrong = shape_of(actions)
    return ("", f"is {wrong}") if wrong else (text(actions), "")


def shape_of(actions):
    """What is wrong with what should be a list of actions with whole numbers; empty: nothing."""
    if not isinstance(actions, list | tuple):
        return f"of type {type(actions).__name__}, not a list"
    for place, action in enumerate(actions):
        if not isinstance(action, Action):
            return f"a list whose element {place} is of type {type(action).__name__}, not an action"
        if isinstance(action, Pair) and not _is_pair(action):
            return (
                f"a list whose element {place} is a Pair of other passes than a Forward and a "
                "Backward or BackwardInput"
            )
        for each in passes(action):
            for number in (each.microbatch, each.chunk):
                if not isinstance(number, int | np.integer) or isinstance(number, bool):
                    return f"a list whose element {place} has {number!r} for a number"
    return ""


def _is_pair(action):
    """Of a forward and a backward pass; which of them comes first is for the tests to say."""
    forward, backward = action.forward, action.backward
    if isinstance(backward, Forward):
        forward, backward = backward, forward
    return isinstance(forward, Forward) and isinstance(backward, Backward | BackwardInput)


def stepped(comm, params, words, batch_sizes, inputs, targets, costs, before=False, watched=False):
    """One step of ``stage.run``.

    Args:
        params: per chunk its weights and biases.
        words: this stage's actions as text.
        costs: seconds of a forward and of a backward pass through a piece.
        before: another step is made first, with other numbers and twice as many samples.
        watched: look at the memory that is allocated meanwhile.

    Returns:
        A dict: ``loss``, ``grads``: per chunk the gradients, ``kept``: are parameters, inputs and
        targets as they were, and the lists of them, and ``peak``, of allocated bytes.
    """
    if before:
        halves, sizes = [[each / 2 for each in own] for own in params], [2 * n for n in batch_sizes]
        twice = [
            own and [np.concatenate([each, each]) for each in own] for own in (inputs, targets)
        ]
        stepped(comm, halves, words, sizes, *twice, costs)
    stage, num_stages = comm.Get_rank(), comm.Get_size()
    pieces = [
        Piece([np.array(each) for each in own], chunk * num_stages + stage, *costs)
        for chunk, own in enumerate(params)
    ]
    given = [each for piece in pieces for each in piece.params] + (inputs or []) + (targets or [])
    values, held = [each.tobytes() for each in given], held_by(inputs, targets)
    run, actions, peak = find("stage:run"), parse(words), 0
    if watched:
        tracemalloc.start()
    try:
        loss = run(comm, pieces, actions, batch_sizes, inputs, targets)
        peak = tracemalloc.get_traced_memory()[1] if watched else 0
    finally:
        tracemalloc.stop()
    same = values == [each.tobytes() for each in given] and held == held_by(inputs, targets)
    return {
        "loss": number(loss),
        "grads": [piece.grads for piece in pieces],
        "kept": same,
        "peak": peak,
    }


def held_by(*lists):
    """What lists have in them, to be compared with what they have later."""
    return [[id(item) for item in each or ()] for each in lists]


def number(value):
    """NumPy's numbers as Python's; arrays stay arrays."""
    return value.item() if isinstance(value, np.generic) else value
