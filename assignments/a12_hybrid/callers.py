"""Functions that call yours inside a rank, for the tests: supplied, nothing to write.

The tests run outside and see only messages and results. What must be looked at from inside they ask
for here:

    ringside run callers.py:grid_summed --ranks 6 -- --sizes 'data=3,tensor=2' --axes tensor
    ringside run callers.py:train2d_forward --ranks 6 -- --grid '[2, 3]'
"""

import dataclasses
import sys
from types import SimpleNamespace

import numpy as np
from layout_cases import layout_graph
from mpi4py import MPI
from planner_cases import (
    PLANNER_COSTS,
    planner_all,
    planner_frugal,
    planner_planned,
    planner_ratio,
    planner_refusal,
)

from ringside import Machine
from ringside.checking import Verdict, find
from ringside.scale import hybrid_cost

# -- grid ------------------------------------------------------------------------------------------


def grid_numbers(comm, target, calls):
    """Call a function of ``grid.py`` with each of a list of arguments.

    Returns:
        Per call ``(result, error)``: the result, or the type of an exception, such as
        ``"ValueError"``; and whether an argument was changed.
    """
    answers = []
    for arguments in calls:
        early = repr(arguments)
        try:
            value, error = find(target)(*arguments), ""
        except Exception as raised:
            value, error = None, type(raised).__name__
        answers.append((value, error, repr(arguments) != early))
    return answers


def grid_summed(comm, sizes, order, axes):
    """Sum every rank's number, ``10 ** rank``, over its group of ``axes``.

    Returns:
        ``(sum, place)``: and the rank's place in its group.
    """
    ranks = find("grid:coordinates")(comm.Get_size(), sizes, order)
    groups = find("grid:groups")(ranks, axes)
    rank = comm.Get_rank()
    number = next(k for k, group in enumerate(groups) if rank in group)
    group = comm.Split(number, groups[number].index(rank))
    total = np.zeros(1)
    group.Allreduce(np.array([10.0**rank]), total, MPI.SUM)
    return float(total[0]), group.Get_rank()


def grid_busy(comm, sizes, order, axes, n):
    """All groups of ``axes`` sum n numbers at the same time; for the notebook's times."""
    ranks = find("grid:coordinates")(comm.Get_size(), sizes, order)
    groups = find("grid:groups")(ranks, axes)
    number = next(k for k, group in enumerate(groups) if comm.Get_rank() in group)
    group = comm.Split(number, groups[number].index(comm.Get_rank()))
    group.Allreduce(np.ones(n), np.empty(n), MPI.SUM)


# -- train2d ---------------------------------------------------------------------------------------


def train2d_forward(comm, num_rows, num_columns, widths, params, batches, rate):
    """The forward pass of the first batch: its logits."""
    column, _ = find("train2d:communicators")(comm, num_rows, num_columns)
    return find("train2d:forward")(column, widths, params, batches[0][0])[0]


def train2d_looked_at(comm, num_rows, num_columns, widths, params, batches, rate):
    """Two equal trainings, with arrays that have gaps; even ranks' can't be written to.

    Returns:
        ``(first, second, changed, shared)``: both results, looked at after the second one; was an
        argument changed; does a result share memory with one, or with the other result?
    """
    arrays = [each for pair in [*params, *batches] for each in pair]
    wide = [np.full((*each.shape, 2), 77, each.dtype) for each in arrays]
    for array, each in zip(wide, arrays, strict=True):
        array[..., 0] = each
        array.flags.writeable = comm.Get_rank() % 2 == 1
    views = [array[..., 0] for array in wide]
    pairs = list(zip(views[::2], views[1::2], strict=True))
    given = pairs[: len(params)], pairs[len(params) :]
    first, second = (
        find("train2d:train")(comm, num_rows, num_columns, widths, *given, rate) for _ in range(2)
    )
    changed = not all(map(np.array_equal, views, arrays))
    changed = changed or any(bool(np.any(array[..., 1] != 77)) for array in wide)
    results = [each for run in (first, second) for pair in run[0] for each in pair]
    return first, second, changed, train2d_overlapping([*wide, *results])


def train2d_overlapping(arrays):
    """Do two of these share memory?"""
    found = [array for array in arrays if isinstance(array, np.ndarray) and array.size]
    return any(np.shares_memory(a, b) for k, a in enumerate(found) for b in found[:k])


def train2d_refused(comm, num_rows, num_columns):
    """``communicators`` with a grid that may be of another size: the type of its error."""
    try:
        find("train2d:communicators")(comm, num_rows, num_columns)
    except Exception as error:
        return type(error).__name__
    return ""


# -- predict ---------------------------------------------------------------------------------------


def predict_argument(given):
    """What a function of ``predict.py`` gets for what a test writes down."""
    if isinstance(given, dict) and "num_layers" in given:
        return SimpleNamespace(**given)  # a model's attributes, without its methods
    if isinstance(given, dict):
        return hybrid_cost.Config(**{**given, "order": tuple(given.get("order", hybrid_cost.AXES))})
    return Machine.load(given) if isinstance(given, str) else given


def predict_numbers(comm, target, calls):
    """Call a function of ``predict.py`` with each of a list of arguments: the results."""
    return [find(target)(*map(predict_argument, call)) for call in calls]


def try_predict(function, *call):
    """Call a function of ``predict.py`` as the tests do, and print what it gives."""
    import predict

    print(getattr(predict, function)(*map(predict_argument, call)))


# -- planner ---------------------------------------------------------------------------------------


def planner_answer(plan, model, machine, num_gpus, memory_bytes, cost_name):
    """One plan: ``(config, error, message, asked)``; the plan's fields, or what was raised.

    ``asked`` counts the calls of the cost model.
    """
    asked = 0

    def counted(*arguments):
        nonlocal asked
        asked += 1
        return PLANNER_COSTS[cost_name](*arguments)

    given = hybrid_cost.Model(**model), Machine.load(machine), num_gpus, memory_bytes
    try:
        config = plan(*given, counted)
    except ValueError as error:
        return None, type(error).__name__, str(error), asked
    if not isinstance(config, hybrid_cost.Config):
        return repr(config)[:200], "", "", asked
    fields = dataclasses.asdict(config)
    return {**fields, "order": list(config.order)}, "", "", asked


def planner_answers(comm, target, calls):
    """Make each of a list of plans; see ``planner_answer``."""
    return [planner_answer(find(target), *call) for call in calls]


def try_planner(*call):
    """Make a plan as the tests do, and say what they say of it."""
    import planner

    answer = planner_answer(planner.plan, *call)
    print(f"{answer[3]} evaluations of the cost model")
    try:
        if all(needed > call[3] for _, needed in planner_all(call)):
            planner_refusal(call, answer, named=True)
            print(f"ValueError: {answer[2]}")
            return
        config, costs = planner_planned(call, answer)
        planner_frugal(call, answer)
        print(planner_ratio(call, config, costs)[1])
    except Verdict as verdict:
        print(verdict.sentence)
        sys.exit(1)


# -- layout ----------------------------------------------------------------------------------------


def layout_numbers(comm, target, calls):
    """Call a function of ``layout.py`` with each of a list of arguments.

    Returns:
        Per call the result, lists in place of tuples; or the type of an exception.
    """
    answers, function = [], find(target)
    for call in calls:
        if target.endswith(("forward", "backward")):
            told, *others = call
            given = (*layout_graph(told), *others)
        else:
            given = [tuple(each) if isinstance(each, list) else each for each in call]
        try:
            answers.append(layout_plain(function(*given)))
        except ValueError as error:
            answers.append(type(error).__name__)
    return answers


def layout_plain(value):
    """Lists in place of tuples, at any depth."""
    return [layout_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def layout_executed(comm, told, layout, mesh, parts):
    """``layout.execute`` of a graph that is told by its name or in lists."""
    return find("layout:execute")(comm, layout_graph(told)[0], layout, mesh, parts)


def layout_kept(comm, told, layout, mesh, parts):
    """Two runs with arrays that can't be written to.

    Returns:
        Both results, after the second run.
    """
    for part in parts.values():
        part.flags.writeable = False
    return [layout_executed(comm, told, layout, mesh, parts) for _ in range(2)]
