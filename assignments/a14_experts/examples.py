"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:exchange_layer --ranks 3 -- --tokens '[4, 6, 5]' --experts 5
    ringside run exchange.py:measured_layer --ranks 4 -- --n 128
    ringside run callers.py:exchange_dispatched --ranks 2 -- --tokens '[4, 0]' --kind one

The functions of ``route.py`` need no ranks: call them in Python.
"""

import exchange_cases
import moe_cases
import node_cases
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


def measured_case(world_size, options):
    """A layer of two experts a rank, with n tokens of 64 elements on each rank."""
    return exchange_cases.exchange_case(
        (options.n,) * world_size, 2 * world_size, d=64, hidden=256, seed=options.seed,
        dtype=options.dtype,
    )  # fmt: skip


def exchange_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` that exchange tokens get after ``comm``."""
    if function == "measured_layer":
        return measured_case(world_size, options).measured_arguments()[rank]
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
        asked.via(function).check_dispatched(rank, value)
    for each in {"exchange_twice": value, "exchange_layer": [value]}.get(function, []):
        asked.check(rank, each)
    return True


# -- moe_torch -------------------------------------------------------------------------------------
MOE_OPTIONS = {"hidden", "how"}


def moe_case_of(world_size, options):
    """The case that the options describe."""
    others = options.others
    numbers = {key: int(others[key]) for key in ("d", "k", "hidden") if key in others}
    return moe_cases.moe_case(
        others.get("tokens", (6,) * world_size), int(others.get("experts", 4)),
        others.get("kind", "usual"), how=others.get("how", "plain"), **numbers,
        seed=options.seed, dtype=options.dtype,
    )  # fmt: skip


def moe_arguments(function, world_size, rank, options):
    """What ``moe_called`` of ``callers_torch.py`` gets after ``group``."""
    if function != "moe_called":
        return None
    return moe_case_of(world_size, options).arguments_of_ranks()[rank]


def moe_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function != "moe_called":
        return False
    moe_case_of(case.world_size, options).check(rank, value)
    return True


# -- node_limited ----------------------------------------------------------------------------------
NODE_OPTIONS = {"ranks_per_node"}
NODE_FUNCTIONS = ("node_layer", "node_twice")


def node_case_of(world_size, options):
    """The case that the options describe."""
    others = options.others
    numbers = {key: int(others[key]) for key in ("d", "k") if key in others}
    return node_cases.node_case(
        others.get("tokens", (6,) * world_size), int(others.get("experts", world_size)),
        int(others.get("ranks_per_node", 1)), others.get("kind", "usual"), **numbers,
        seed=options.seed, dtype=options.dtype,
    )  # fmt: skip


def node_arguments(function, world_size, rank, options):
    """What ``node_layer`` and ``node_twice`` of ``callers.py`` get after ``comm``."""
    if function not in NODE_FUNCTIONS:
        return None
    return node_case_of(world_size, options).arguments_of_ranks()[rank]


def node_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in NODE_FUNCTIONS:
        return False
    for each in value if function == "node_twice" else [value]:
        node_case_of(case.world_size, options).check(rank, each)
    return True


OPTIONS = {*EXCHANGE_OPTIONS, *MOE_OPTIONS, *NODE_OPTIONS}
INSTEAD = {}
CHECKS = {
    "sent": exchange_cases.assert_sent_at_most,
    "between": node_cases.assert_between_nodes,
    "places": node_cases.assert_same_place,
    "all_to_all": lambda result, case, _: moe_cases.assert_all_to_all(result, case),
    "exchanges": lambda result, case, _: exchange_cases.assert_exchanges(result, case),
}


def arguments(function, world_size, rank, options):
    """What a function gets after ``comm`` on a rank; None: it isn't known here."""
    for known in (exchange_arguments, moe_arguments, node_arguments):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` of ``measured_layer`` gets; None: nothing is known, or ``check`` knows."""
    if function != "measured_layer":
        return None
    return measured_case(world_size, options).rights[rank][:3]


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    modules = exchange_check, moe_check, node_check
    return any(known(case, function, rank, value, options) for known in modules)
