"""Functions that call yours inside a rank, for the tests: supplied, nothing to write."""

import dataclasses
import sys
from types import SimpleNamespace

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
