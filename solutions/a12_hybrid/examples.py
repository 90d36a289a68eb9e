"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:grid_summed --ranks 6 -- --sizes 'data=3,tensor=2' --axes tensor
    ringside run train2d.py:train --ranks 6 -- --grid '[2, 3]' --widths '[8, 6, 4]'
    ringside run train2d.py:measured_steps --ranks 4 -- --grid '[2, 2]' --n 512

Models and samples are drawn from ``--seed``. The functions of ``grid.py`` need no ranks: call them
in Python.
"""

from dataclasses import replace

import grid_cases
import numpy as np
import train2d_cases
from train2d_layers import pack

# -- grid ------------------------------------------------------------------------------------------
GRID_OPTIONS = {"sizes", "order", "axes"}


def grid_options(world_size, options):
    """``(sizes, order, axes)`` that the options describe."""
    words = str(options.others.get("sizes", f"data={world_size}"))
    sizes = {axis: int(size) for axis, size in (each.split("=") for each in _words(words, ","))}
    order = _words(str(options.others.get("order", "-".join(sizes))), "-")
    return sizes, order, _words(str(options.others.get("axes", order[0])), "-")


def _words(text, between):
    """Words of a list that the command line may have made of it already."""
    text = text.strip("()[]").replace("'", "").replace(", ", ",")
    return [word.strip() for word in text.split(between) if word.strip()]


def grid_arguments(function, world_size, rank, options):
    """What ``callers.grid_summed`` gets after ``comm``."""
    return grid_options(world_size, options) if function == "grid_summed" else None


def grid_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function != "grid_summed":
        return False
    sizes, order, axes = grid_options(case.world_size, options)
    ranks = grid_cases.grid_coordinates(sizes, order)
    grid_cases.check_grid_sum(value, ranks, rank, axes, case)
    return True


# -- train2d ---------------------------------------------------------------------------------------
TRAIN2D_OPTIONS = {"grid", "widths", "samples", "steps"}
TRAIN2D_INSTEAD = {  # communicators are made on the ranks
    "train2d.py:communicators": "callers.py:train2d_forward -- --grid '[2, 2]'",
    "train2d.py:forward": "callers.py:train2d_forward -- --grid '[2, 2]'",
    "train2d.py:backward": "train2d.py:train -- --grid '[2, 2]'",
}
TRAIN2D_FUNCTIONS = ("train", "train2d_forward", "train2d_looked_at")
TRAIN2D_MEASURED = (512, 512, 512, 64)  # widths of the measured model


def train2d_case_of(world_size, options, function=""):
    """The case that the options describe."""
    others = options.others
    rows = 2 if world_size % 2 == 0 else 1
    grid = tuple(others.get("grid", (rows, world_size // rows)))
    widths, samples = (8, 6, 4), (5,) * grid[1]
    if function == "measured_steps":
        widths = TRAIN2D_MEASURED
        samples = tuple(train2d_cases.part_sizes(options.n, grid[1]))
    return train2d_cases.train2d_made(
        grid, others.get("widths", widths), others.get("samples", samples),
        int(others.get("steps", 2)), options.seed, options.dtype,
    )  # fmt: skip


def train2d_arguments(function, world_size, rank, options):
    """What the functions of ``train2d.py``, and those that call them, get after ``comm``."""
    if function == "train2d_refused":
        return tuple(options.others.get("grid", (2, world_size)))
    if function not in (*TRAIN2D_FUNCTIONS, "measured_steps"):
        return None
    return train2d_case_of(world_size, options, function).arguments_of_ranks()[rank]


def train2d_expected(function, world_size, rank, options):
    """What rank ``rank`` of ``measured_steps`` gets."""
    if function != "measured_steps":
        return None
    case = train2d_case_of(world_size, options, function)
    params, losses = train2d_cases.serial(case)
    own = train2d_cases.part_of_params(params, case.grid[0], case.row_and_column(rank)[0])
    return pack(own).astype(options.dtype), np.array(losses)


def train2d_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "train2d_refused":
        train2d_cases.assert_refused(value, rank, case)
        return True
    if function not in TRAIN2D_FUNCTIONS:
        return False
    asked = train2d_seen(case, train2d_case_of(case.world_size, options))
    if function == "train2d_forward":
        train2d_cases.check_logits(value, rank, asked)
    elif function == "train2d_looked_at":
        train2d_cases.assert_kept(value, train2d_cases.serial(asked), rank, asked)
    else:
        train2d_cases.check_rank(value, train2d_cases.serial(asked), rank, asked)
    return True


def train2d_seen(case, asked):
    """The same case, whose verdicts show the line that was typed."""
    return replace(asked, line=case.reproduce)


def _train2d_told(check):
    """A check of a whole run that is told a case's numbers, and what stands behind them."""

    def told(result, case, value):
        asked, more = train2d_cases.train2d_of(value)
        check(result, train2d_seen(case, asked), more)

    return told


TRAIN2D_CHECKS = {
    "scheme": _train2d_told(lambda result, case, _: train2d_cases.assert_scheme(result, case)),
    "work": _train2d_told(
        lambda result, case, more: train2d_cases.assert_work(result, case, bool(more))
    ),
    **{
        axis: _train2d_told(
            lambda result, case, more, axis=axis, number=number: train2d_cases.assert_axis(
                result, case, number, [int(word) for word in more.split(",")]
            )
        )
        for number, axis in enumerate(("column", "row"))
    },
}


# -- all -------------------------------------------------------------------------------------------
OPTIONS = {*GRID_OPTIONS, *TRAIN2D_OPTIONS}
INSTEAD = {**TRAIN2D_INSTEAD}
CHECKS = {**TRAIN2D_CHECKS}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (grid_arguments, train2d_arguments):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return train2d_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    modules = (grid_check, train2d_check)
    return any(known(case, function, rank, value, options) for known in modules)
