"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside, such
as memory, they ask for here. The ``try_...`` functions are for you: they make inputs of their own,
and run what a verdict names.
"""

import tracemalloc

import numpy as np
from actions import Action, parse, text
from model import Piece, random_parameters

from ringside.checking import find


def several(comm, target, calls):
    """Call a function that needs no ranks with each of a list of arguments.

    Returns:
        Per call ``(result, None)``, or ``(None, "ValueError")``: the exception's type.
    """
    answers = []
    for arguments in calls:
        try:
            answers.append((find(target)(*arguments), None))
        except Exception as error:
            answers.append((None, type(error).__name__))
    return answers


def schedules(comm, target, calls):
    """``several`` for functions of ``schedule``: each result is the actions as text.

    A result that is no list of actions comes as ``(None, what it is)``.
    """
    found = several(comm, target, calls)
    return [(as_text(value), error or shape_of(value)) for value, error in found]


def as_text(actions):
    """A list of actions as text; None if it isn't one."""
    return text(actions) if shape_of(actions) is None else None


def shape_of(actions):
    """None for a list of actions with whole numbers; else what is wrong with it."""
    if not isinstance(actions, list | tuple):
        return f"of type {type(actions).__name__}, not a list"
    for place, each in enumerate(actions):
        if not isinstance(each, Action):
            return f"a list whose element {place} is of type {type(each).__name__}, not an action"
        for number in (each.microbatch, each.chunk):
            if not isinstance(number, int | np.integer) or isinstance(number, bool):
                return f"a list whose element {place} has {number!r} for a number"
    return None


def stepped(comm, params, words, batch_sizes, inputs, targets, costs=(1e-6, 2e-6)):
    """One step of ``stage.run``.

    Args:
        params: per chunk the parameters of this stage's piece.
        words: this stage's actions as text.
        inputs, targets: one array a microbatch, or None.
        costs: seconds of a forward and a backward pass through one piece.

    Returns:
        A dict: ``loss``, ``grads``: per chunk the gradients, and ``kept``: are parameters, inputs
        and targets as they were, and the lists of them?
    """
    pieces = made(comm, params, costs)
    given = [each for piece in pieces for each in piece.params] + (inputs or []) + (targets or [])
    before, lists = [np.array(each) for each in given], held(inputs, targets)
    loss = find("stage:run")(comm, pieces, parse(words), batch_sizes, inputs, targets)
    kept = all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))
    kept = kept and lists == held(inputs, targets)
    return {"loss": number(loss), "grads": [piece.grads for piece in pieces], "kept": kept}


def held(*lists):
    """What lists have in them, to be compared with what they have later."""
    return [[id(item) for item in each or ()] for each in lists]


def number(value):
    """NumPy's numbers as Python's; arrays stay arrays."""
    return value.item() if isinstance(value, np.generic) else value


def second_step(comm, params, words, batch_sizes, inputs, targets):
    """What ``stepped`` returns of a second step, after one with other numbers."""
    turned = [each and each[::-1] for each in (batch_sizes, inputs, targets)]
    stepped(comm, [[each / 2 for each in own] for own in params], words, *turned)
    return stepped(comm, params, words, batch_sizes, inputs, targets)


def made(comm, params, costs):
    """This stage's pieces."""
    stage, num_stages = comm.Get_rank(), comm.Get_size()
    return [
        Piece([np.array(each) for each in own], chunk * num_stages + stage, *costs)
        for chunk, own in enumerate(params)
    ]


def step_memory(comm, params, words, batch_sizes, inputs, targets):
    """One step under watch: what ``stepped`` returns, and ``peak``, of allocated bytes."""
    pieces = made(comm, params, (1e-6, 2e-6))
    run, actions = find("stage:run"), parse(words)
    tracemalloc.start()
    try:
        loss = run(comm, pieces, actions, batch_sizes, inputs, targets)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return {"loss": number(loss), "grads": [piece.grads for piece in pieces], "peak": peak}


# -- for trying out -------------------------------------------------------------------------------


def try_stage(
    comm, schedules, batch_sizes, chunks=1, precision="float64", steps=1,
    widths=(5, 7, 4), costs=(1e-6, 2e-6), memory=False,
):  # fmt: skip
    """One step on a sample model; returns loss and gradients.

    Args:
        schedules: one text a stage, such as ``['F0 F1 B0 B1', 'F0 B0 F1 B1']``; or the name of a
            function of your ``schedule.py``.
        steps: 2 for those of a second step, after one with other numbers.
        widths: in, hidden and out of the first piece; the next one goes back.
        costs: seconds of a forward and a backward pass through one piece.
        memory: watch it, and tell the peak, too.
    """
    stage, num_stages = comm.Get_rank(), comm.Get_size()
    words = words_of(schedules, num_stages, len(batch_sizes), stage, chunks)
    params, inputs, targets = sample(num_stages * chunks, batch_sizes, precision, widths)
    mine = [params[chunk * num_stages + stage] for chunk in range(chunks)]
    first, last = stage == 0, stage == num_stages - 1
    given = (mine, words, batch_sizes, inputs if first else None, targets if last else None)
    if memory:
        return step_memory(comm, *given)
    return stepped(comm, *given, costs) if steps == 1 else second_step(comm, *given)


def words_of(schedules, num_stages, num_microbatches, stage, num_chunks):
    """A stage's actions as text."""
    if not isinstance(schedules, str):
        return schedules[stage]
    more = (num_chunks,) if schedules == "interleaved" else ()
    return text(find(f"schedule:{schedules}")(num_stages, num_microbatches, stage, *more))


def sample(num_pieces, batch_sizes, dtype="float64", widths=(5, 7, 4)):
    """Parameters per piece, inputs and targets; pieces take turns in the widths they hand on."""
    rng = np.random.default_rng(3)
    ends = [widths[2 * (piece % 2)] for piece in range(num_pieces + 1)]
    params = [
        random_parameters((ends[piece], widths[1], ends[piece + 1]), rng, dtype)
        for piece in range(num_pieces)
    ]
    inputs = [rng.standard_normal((size, ends[0])).astype(dtype) for size in batch_sizes]
    targets = [rng.standard_normal((size, ends[-1])).astype(dtype) for size in batch_sizes]
    return params, inputs, targets
