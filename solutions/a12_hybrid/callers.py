"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import dataclasses
from types import SimpleNamespace

from planner_cases import PLANNER_COSTS

from ringside import Machine
from ringside.checking import find
from ringside.scale import hybrid_cost

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
    """Make a plan as the tests do, and print it, with what it costs."""
    import planner

    fields, error, message, asked = planner_answer(planner.plan, *call)
    print(f"{asked} evaluations of the cost model")
    if error:
        print(f"{error}: {message}")
    elif isinstance(fields, str):
        print(f"not a Config: {fields}")
    else:
        config = hybrid_cost.Config(**{**fields, "order": tuple(fields["order"])})
        model, machine = hybrid_cost.Model(**call[0]), Machine.load(call[1])
        cost = PLANNER_COSTS[call[4]](model, config, machine)
        print(f"{config}\n{cost.step_s:.6g} s a step, {cost.memory_bytes} bytes of {call[3]}")
