"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:exchange_layer --ranks 3 -- --tokens '[4, 6, 5]' --experts 5
    ringside run callers.py:exchange_dispatched --ranks 2 -- --tokens '[4, 0]' --kind one

The functions of ``route.py`` need no ranks: call them in Python.
"""

import exchange_cases
import route_cases  # noqa: F401  the hidden suite takes it from here

# -- exchange --------------------------------------------------------------------------------------
EXCHANGE_OPTIONS = {"tokens", "experts", "kind", "d", "k"}
EXCHANGE_FUNCTIONS = ("exchange_layer", "exchange_twice", "exchange_dispatched")


def exchange_case_of(world_size, options):
    """The case that the options describe."""
    others = options.others
    tokens = others.get("tokens", (6,) * world_size)
    numbers = {key: int(others[key]) for key in ("d", "k") if key in others}
    return exchange_cases.exchange_case(
        tokens, int(others.get("experts", 4)), others.get("kind", "usual"), **numbers,
        seed=options.seed, dtype=options.dtype,
    )  # fmt: skip


def exchange_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` that exchange tokens get after ``comm``."""
    if function not in EXCHANGE_FUNCTIONS:
        return None
    case = exchange_case_of(world_size, options)
    if function == "exchange_dispatched":
        return case.dispatched_arguments()[rank]
    return case.arguments_of_ranks()[rank]


def exchange_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in EXCHANGE_FUNCTIONS:
        return False
    asked = exchange_case_of(case.world_size, options)
    if function == "exchange_dispatched":
        asked.check_dispatched(rank, value)
    for each in {"exchange_twice": value, "exchange_layer": [value]}.get(function, []):
        asked.check(rank, each)
    return True


OPTIONS = {*EXCHANGE_OPTIONS}
INSTEAD = {}
CHECKS = {}


def arguments(function, world_size, rank, options):
    """What a function gets after ``comm`` on a rank; None: it isn't known here."""
    return exchange_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """Nothing is compared by value alone."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return exchange_check(case, function, rank, value, options)
