"""Functions that call yours inside a rank, for the tests: nothing to write.

The tests run outside, and see only messages and results. What must be made or looked at inside a
rank they ask for here.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
from given.einsum_graph import GRAPHS
from given.planner_costs import COSTS
from mpi4py import MPI

from ringside import Machine
from ringside.checking.callers import find
from ringside.checking.inside import several
from ringside.scale import hybrid_cost

# -- grid ------------------------------------------------------------------------------------------


def grid_summed(comm, sizes, order, axes):
    """Sum every rank's number, ``10 ** rank``, over its group of ``axes``.

    Returns:
        ``(sum, place)``: and the rank's place in its group.
    """
    group, total = _group(comm, sizes, order, axes), np.zeros(1)
    group.Allreduce(np.array([10.0 ** comm.Get_rank()]), total, MPI.SUM)
    return float(total[0]), group.Get_rank()


def grid_busy(comm, sizes, order, axes, n):
    """All groups of ``axes`` sum n numbers at the same time; for the notebook's times."""
    _group(comm, sizes, order, axes).Allreduce(np.ones(n), np.empty(n), MPI.SUM)


def _group(comm, sizes, order, axes):
    """This rank's group as a communicator."""
    groups = find("grid:groups")(find("grid:coordinates")(comm.Get_size(), sizes, order), axes)
    number = next(k for k, group in enumerate(groups) if comm.Get_rank() in group)
    return comm.Split(number, groups[number].index(comm.Get_rank()))


# -- train2d ---------------------------------------------------------------------------------------


def logits(comm, num_rows, num_columns, widths, params, batches, rate):
    """The forward pass of the first batch: its logits."""
    column, _ = find("train2d:communicators")(comm, num_rows, num_columns)
    return find("train2d:forward")(column, widths, params, batches[0][0])[0]


def refused(comm, num_rows, num_columns):
    """``communicators`` with a grid that may be of another size: the type of its error."""
    try:
        find("train2d:communicators")(comm, num_rows, num_columns)
    except Exception as error:
        return type(error).__name__
    return "nothing"


# -- predict and planner ---------------------------------------------------------------------------


def revived(given):
    """What a function of ``predict.py`` gets for what a test writes down."""
    if isinstance(given, dict) and "num_layers" in given:
        return SimpleNamespace(**given)  # a model's attributes, without its methods
    if isinstance(given, dict):
        return hybrid_cost.Config(**given)
    return Machine.load(given) if isinstance(given, str) else given


def predict_calls(comm, target, calls):
    """Call a function of ``predict.py`` with each of a list of arguments."""
    return several(comm, target, [tuple(map(revived, call)) for call in calls])


def predict_steps(comm, target, calls):
    """Call ``step_s`` with each of several machines: per call the list of its answers."""
    answers = []
    for model, config, machines in calls:
        of_machines = [(model, config, machine) for machine in machines]
        values, errors, changed = zip(*predict_calls(comm, target, of_machines), strict=True)
        answers.append((list(values), next(filter(None, errors), ""), any(changed)))
    return answers


def plans(comm, target, calls):
    """Make each of a list of plans.

    Returns:
        Per call ``((fields, message, asked), error, False)``: of the plan, or of the exception; and
        how often the cost model was asked.
    """
    return [_plan(find(target), *call) for call in calls]


def _plan(plan, model, machine, num_gpus, memory_bytes, cost):
    asked = 0

    def counted(*arguments):
        nonlocal asked
        asked += 1
        return COSTS[cost](*arguments)

    given = hybrid_cost.Model(**model), Machine.load(machine), num_gpus, memory_bytes
    try:
        config = plan(*given, counted)
    except ValueError as error:
        return (None, str(error), asked), type(error).__name__, False
    if not isinstance(config, hybrid_cost.Config):
        return (repr(config)[:200], "", asked), "", False
    fields = dataclasses.asdict(config)
    return ({**fields, "order": list(config.order)}, "", asked), "", False


# -- layout ----------------------------------------------------------------------------------------


def layout_calls(comm, target, calls):
    """Call ``forward`` or ``backward`` of ``layout.py`` for graphs that are named."""
    given = [(*GRAPHS[name], layout, mesh) for name, layout, mesh in calls]
    return several(comm, target, given)


def executed(comm, name, layout, mesh, parts):
    """``layout.execute`` of a graph that is named; ``parts`` of its given tensors, in order."""
    graph = GRAPHS[name][0]
    named = dict(zip(graph.given(), parts, strict=True))
    return find("layout:execute")(comm, graph, layout, mesh, named)
