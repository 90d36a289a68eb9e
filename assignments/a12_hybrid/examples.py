"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers.py:grid_summed --ranks 6 -- --sizes 'data=3,tensor=2' --axes tensor
    ringside run train2d.py:train --ranks 6 -- --grid '[2, 3]' --widths '[8, 6, 4]'
    ringside run train2d.py:measured_steps --ranks 4 -- --grid '[2, 2]' --n 512
    ringside run train3d_callers_torch.py:try_training --ranks 8 -- --layers '[1, 1]' --dp 2 --tp 2
    ringside run callers.py:layout_executed --ranks 4 -- --layout '{"hidden": "all"}'

Models and samples are drawn from ``--seed``. The functions of ``grid.py``, ``predict.py`` and
``planner.py``, and the others of ``layout.py``, need no ranks: call them in Python.
"""

from dataclasses import replace
from pathlib import Path

import grid_cases
import layout_cases
import numpy as np
import train2d_cases
import train3d_cases_torch as train3d
from train2d_layers import pack

import ringside

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

# -- train3d_torch ---------------------------------------------------------------------------------
TRAIN3D_INSTEAD = {
    f"train3d_torch.py:{name}": f"train3d_callers_torch.py:{instead}"
    for name, instead in {
        "make_grid": "try_grid -- --pp 2",
        "run_layer": "try_layer -- --n 2",
        "run_pipeline": "try_training -- --steps 1",
        "train_step": "try_training -- --steps 1",
    }.items()
}


def train3d_check(case, function, rank, value, options):
    """Raise a verdict where what a function of ``train3d_callers_torch.py`` gave isn't right."""
    others, rng = options.others, np.random.default_rng(0)
    if function == "try_training":
        training = train3d_training(case)
        wanted = train3d.serial(training, *train3d.sample(rng, training), case.factors)
        train3d.check_training(value, wanted, training, case, rank)
    elif function == "try_grid":
        dp, tp = (others.get(name, 1) for name in ("dp", "tp"))
        sizes = others.get("pp", case.world_size // (dp * tp)), dp, tp
        train3d.check_grid(value, sizes, case, rank)
    elif function == "try_layer":
        layer = train3d.layer_case(case.world_size)
        wanted = train3d.serial_layer(layer, *train3d.layer_sample(rng, layer), case.factors)
        train3d.check_layer(value, wanted, layer, case, rank)
    else:
        return False
    return True


def train3d_training(case):
    """The training that a line describes."""
    names = ("layers", "dp", "tp", "sizes", "steps", "schedule", "hidden", "heads", "vocabulary")
    given = {name: case.options[name] for name in names if name in case.options}
    stages = case.world_size // (given.get("dp", 1) * given.get("tp", 1))
    given.setdefault("layers", (1,) * stages)
    return train3d.training(given)


def train3d_seen(check_of_run):
    """The check of ``train3d_cases_torch.py`` of this name, of what the network saw, for a line."""
    return lambda result, case, _: getattr(train3d, check_of_run)(
        result, train3d_training(case), case
    )


def train3d_time(_, case, value):
    """A step of a large model, traced on fake tensors."""
    folder = Path(__file__).parent

    def trace(target, *arguments, **options):
        return ringside.trace_torch(
            f"{folder}/{target.replace(':', '.py:')}", *arguments, **options
        )

    train3d.assert_time(trace, case, int(value))


TRAIN3D_CHECKS = {
    "train3d_bytes": train3d_seen("assert_bytes_by_axis"),
    "train3d_passes": train3d_seen("assert_passes"),
    "train3d_time": train3d_time,
}

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


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*GRID_OPTIONS, *TRAIN2D_OPTIONS, *LAYOUT_OPTIONS}
INSTEAD = {**TRAIN2D_INSTEAD, **TRAIN3D_INSTEAD}
CHECKS = {
    **TRAIN2D_CHECKS,
    **TRAIN3D_CHECKS,
    "layout_bytes": lambda result, case, value: layout_cases.assert_layout_bytes(
        result, case, int(value)
    ),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    for known in (grid_arguments, train2d_arguments, layout_arguments):
        given = known(function, world_size, rank, options)
        if given is not None:
            return given
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return train2d_expected(function, world_size, rank, options)


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    modules = grid_check, train2d_check, train3d_check, layout_check
    return any(known(case, function, rank, value, options) for known in modules)
