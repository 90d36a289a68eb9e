"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

ringside run train3d_callers_torch.py:try_training --ranks 8 -- --layers '[1, 1]' --dp 2 --tp 2
ringside run train3d_callers_torch.py:try_grid --ranks 8 -- --pp 2 --dp 2 --tp 2
ringside run train3d_callers_torch.py:try_layer --ranks 3
"""

from pathlib import Path

import numpy as np
import train3d_cases_torch as train3d

import ringside

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
    """A check of what the network saw, for a line."""
    return lambda result, case, _: check_of_run(result, train3d_training(case), case)


def train3d_time(_, case, value):
    """A step of a large model, traced on fake tensors."""
    folder = Path(__file__).parent

    def trace(target, *arguments, **options):
        return ringside.trace_torch(
            f"{folder}/{target.replace(':', '.py:')}", *arguments, **options
        )

    train3d.assert_time(trace, case, int(value))


TRAIN3D_CHECKS = {
    "train3d_bytes": train3d_seen(train3d.assert_bytes_by_axis),
    "train3d_passes": train3d_seen(train3d.assert_passes),
    "train3d_time": train3d_time,
}

# -- all modules -----------------------------------------------------------------------------------

OPTIONS = set()
INSTEAD = {**TRAIN3D_INSTEAD}
CHECKS = {**TRAIN3D_CHECKS}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm`` or ``group``; None for functions not known here."""
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None where nothing is known, or where ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    return train3d_check(case, function, rank, value, options)
