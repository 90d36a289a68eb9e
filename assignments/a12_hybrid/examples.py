"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:layout_executed --ranks 4 -- --layout '{"hidden": "all"}'

The other functions of ``layout.py`` need no ranks: call them in Python.
"""

import layout_cases

# -- layout ----------------------------------------------------------------------------------------
LAYOUT_OPTIONS = {"graph", "layout", "mesh"}
LAYOUT_FUNCTIONS = ("layout_executed", "layout_kept")


def layout_case_of(world_size, options):
    """The case that the options describe."""
    others = options.others
    mesh = others.get("mesh", {"all": world_size})
    layout = others.get("layout", {"batch": "all"} if "mesh" not in others else {})
    # Without a mesh all ranks stand along one axis, "all".
    return layout_cases.layout_case(
        others.get("graph", "MLP"), layout, mesh, options.seed, options.dtype
    )


def layout_arguments(function, world_size, rank, options):
    """What the functions of ``callers.py`` that run a layout get after ``comm``."""
    if function not in LAYOUT_FUNCTIONS:
        return None
    return layout_case_of(world_size, options).arguments_of_ranks()[rank]


def layout_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in LAYOUT_FUNCTIONS:
        return False
    asked = layout_case_of(case.world_size, options)
    for each in value if function == "layout_kept" else [value]:
        asked.check(rank, each)
    return True


OPTIONS = {*LAYOUT_OPTIONS}
INSTEAD = {}
CHECKS = {
    "layout_bytes": lambda result, case, value: layout_cases.assert_layout_bytes(
        result, case, int(value)
    ),
}


def arguments(function, world_size, rank, options):
    """What a function gets after ``comm`` on a rank; None: it isn't known here."""
    return layout_arguments(function, world_size, rank, options)


def expected(function, world_size, rank, options):
    """Nothing is compared by value alone."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return layout_check(case, function, rank, value, options)
