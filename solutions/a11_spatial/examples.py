"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run halo.py:exchange --ranks 3 -- --heights '[4, 3, 5]' --halo-width 2
    ringside run halo.py:exchange_grid --ranks 6 -- --heights '[4, 3]' --widths '[3, 5, 2]'
    ringside run callers.py:conv_both --ranks 3 -- --heights '[4, 3, 5]' --k 5
    ringside run conv.py:measured_layer --ranks 4 -- --n 64

Images, filters and gradients are drawn from ``--seed``. The functions of ``cost.py`` need no ranks:
call them in Python.
"""

import itertools

import conv_cases
import halo_cases
from conv_cases import ConvCase
from halo_cases import HaloCase

# -- halo ------------------------------------------------------------------------------------------

HALO_OPTIONS = {"heights", "widths", "halo_width", "shape"}
HALO_FUNCTIONS = ("exchange", "halo_looked_at", "halo_refused")


def halo_case_of(world_size, options):
    """The case that the options describe."""
    others = options.others
    heights = tuple(others.get("heights", (4,) * world_size))
    return HaloCase(
        "halo:exchange", world_size, sum(heights), options.dtype, heights=heights,
        widths=tuple(others.get("widths", ())), halo_width=int(others.get("halo_width", 1)),
        shape=tuple(others.get("shape", (2, 3) if "widths" in others else (2, 3, 5))),
        seed=options.seed,
    )  # fmt: skip


def halo_arguments(function, world_size, rank, options):
    """What the functions of ``halo.py``, and those that call them, get after ``comm``."""
    if function not in (*HALO_FUNCTIONS, "exchange_grid"):
        return None
    if function == "exchange_grid" and "widths" not in options.others:
        options.others["widths"] = (3,) * world_size
        options.others.setdefault("heights", (4,))
    case = halo_case_of(world_size, options)
    more = (case.rights()[rank],) if function == "halo_refused" else ()
    return (*case.arguments_of_ranks()[rank], *more)


def halo_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in (*HALO_FUNCTIONS, "exchange_grid"):
        return False
    asked = halo_case_of(case.world_size, options)
    if function == "halo_refused":
        halo_cases.assert_low(value, rank, asked, case)
    elif function == "halo_looked_at":
        halo_assert_looked_at(value, asked.rights()[rank], rank, case)
    else:
        halo_cases.assert_equal(value, asked.rights()[rank], rank, case)
    return True


def halo_assert_looked_at(value, right, rank, case):
    """What ``halo_looked_at`` of ``callers.py`` gave back on a rank is right."""
    first, second, changed, shared = value
    for each in (first, second):
        halo_cases.assert_equal(each, right, rank, case)
    assert_kept(changed, shared, rank, case)


# -- conv ------------------------------------------------------------------------------------------

CONV_OPTIONS = {"heights", "k", "stride", "shape"}
CONV_INSTEAD = {  # convolutions are made on the ranks
    "conv.py:forward": "callers.py:conv_forward -- --heights '[4, 3]' --k 3",
    "conv.py:backward": "callers.py:conv_both -- --heights '[4, 3]' --k 3",
}
CONV_FUNCTIONS = ("conv_forward", "conv_both", "conv_looked_at")
MEASURED = (1, 8, 8)  # images, channels in and out of the measured layer


def conv_case_of(world_size, options, function=""):
    """The case that the options describe; the measured layer's image is n x n."""
    others = options.others
    heights, shape = (4,) * world_size, (2, 3, 2, 5)
    if function == "measured_layer":
        ends = [options.n * rank // world_size for rank in range(world_size + 1)]
        heights = [end - start for start, end in itertools.pairwise(ends)]
        shape = (*MEASURED, options.n)
    heights = tuple(others.get("heights", heights))
    return ConvCase(
        "conv:forward", world_size, sum(heights), options.dtype, heights=heights,
        k=int(others.get("k", 3)), stride=int(others.get("stride", 1)),
        shape=tuple(others.get("shape", shape)), seed=options.seed,
    )  # fmt: skip


def conv_arguments(function, world_size, rank, options):
    """What the functions that call ``conv.py`` get after ``comm``."""
    if function not in (*CONV_FUNCTIONS, "measured_layer"):
        return None
    given = conv_case_of(world_size, options, function).arguments_of_ranks()[rank]
    if function == "measured_layer":
        weight, bias, _, x, first_row, dy = given
        return weight, bias, x, first_row, dy
    return given[:-1] if function == "conv_forward" else given


def conv_expected(function, world_size, rank, options):
    """What rank ``rank`` of ``measured_layer`` gets."""
    if function != "measured_layer":
        return None
    found = conv_cases.serial(conv_case_of(world_size, options, function))[rank]
    return tuple(each.astype(options.dtype) for each in found)


def conv_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function not in CONV_FUNCTIONS:
        return False
    asked = conv_case_of(case.world_size, options)
    if case.factors is None:  # else they depend on all ranks' passes: --check passes compares
        conv_check_value(function, value, rank, asked, case)
    return True


def conv_check_value(function, value, rank, asked, case):
    """One rank's results, where nothing was scaled."""
    right = conv_cases.serial(asked)[rank]
    for each in value[:2] if function == "conv_looked_at" else [value]:
        conv_cases.check_convolved(each, right, rank, case)
    if function == "conv_looked_at":
        assert_kept(*value[2:], rank, case)


def conv_check_interior(result, case, value):
    """``--check interior=0:3,5:8``: rows that need no halo were begun before it was waited for."""
    rows = [tuple(map(int, each.split(":"))) for each in value.split(",")]
    conv_cases.assert_interior_first(result, case, rows)


def conv_check_passes(result, case, value):
    """``--check passes=...``: the passes, and the values where their inputs were scaled."""
    parts, asked = conv_cases.case_of(value)
    conv_cases.check_observed(result, asked, case, parts)


# -- what several modules need ---------------------------------------------------------------------


def assert_kept(changed, shared, rank, case):
    """Arguments stayed as they were, and results are new."""
    if changed:
        raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
    if shared:
        raise case.fail(
            f"rank {rank} returned an array that shares memory with what it was given, or with "
            "the result of another call; results must be new arrays."
        )


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*HALO_OPTIONS, *CONV_OPTIONS}
INSTEAD = {**CONV_INSTEAD}
CHECKS = {
    "halos": lambda result, case, value: conv_cases.assert_halos_only(result, case, int(value)),
    "one_all_reduce": lambda result, case, _: conv_cases.assert_one_all_reduce(result, case),
    "interior": conv_check_interior,
    "passes": conv_check_passes,
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (halo_arguments, conv_arguments):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return conv_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    modules = (halo_check, conv_check)
    return any(known(case, function, rank, value, options) for known in modules)
