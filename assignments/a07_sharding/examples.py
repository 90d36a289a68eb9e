"""Inputs for trying a function out, and what must come back: supplied.

ringside run callers_torch.py:try_zero3 --ranks 4 -- --widths '[8, 8, 8, 8]' --steps 2
"""

import numpy as np
from cases_torch import check_zero3, options_of, sample_training, sharded
from observed_torch import assert_one_ahead, assert_reduced, assert_scheme, assert_time, assert_ways
from serial_torch import train

INSTEAD = {  # these make inputs, and try the function on them
    "zero3_torch.py:ZeRO3": "callers_torch.py:try_zero3 -- --widths '[4, 6, 4]'",
    "hsdp_torch.py:gather": "callers_torch.py:try_hsdp -- --function gather",
    "hsdp_torch.py:synchronise": "callers_torch.py:try_hsdp -- --function synchronise",
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``comm``; None: the function makes its inputs itself."""
    return None


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get, where that is a matter of the function's inputs."""
    return 0.0 if function == "try_hsdp" else None


# -- zero3_torch -----------------------------------------------------------------------------------


def check(case, function, rank, value, options):
    """Raise a verdict where what ``try_zero3`` gave back on a rank is not right."""
    if function != "try_zero3":
        return False
    spec, by_layer, plan = _zero3(options.others)
    given = options.others
    settings = options_of(given.get("optimizer", "sgd"), by_layer=by_layer)
    sample = sample_training(np.random.default_rng(0), spec, case.world_size, by_layer, **plan)
    wanted = train(sample["params"], sample["steps"], sample["evaluated"], settings, case.factors)
    check_zero3(value, wanted, rank, spec, by_layer, case)
    return True


def _zero3(others):
    """Network, sharding and plan of a line's options."""
    spec = {
        "widths": others.get("widths", (4, 6, 4)),
        "blocks": others.get("blocks"),
        "bias": others.get("bias", True),
        "dtype": others.get("precision", "float64"),
    }
    plan = {name: others.get(name, 1) for name in ("steps", "microbatches")}
    return spec, bool(others.get("by_layer")), plan | {"evaluate": bool(others.get("evaluate"))}


def _seen(check_of_run):
    def checked(result, case, _):
        spec, by_layer, _ = _zero3(case.options)
        check_of_run(result, case, sharded(spec, case.world_size, by_layer))

    return checked


def _time(result, case, value):
    layers = sharded(_zero3(case.options)[0], case.world_size)
    assert_time(result, case, layers, case.options.get("costs", (1e-6, 2e-6)), int(value))


def _ways(result, case, _):
    given = case.options
    lengths, size = given.get("lengths", (8, 4)), given.get("shard_size", 2)
    assert_ways(result, case, given.get("function", "synchronise"), size, lengths, case.dtype)


CHECKS = {
    "ways": _ways,
    "scheme": _seen(assert_scheme),
    "one_ahead": _seen(assert_one_ahead),
    "time_on": _time,
    "reduced": _seen(assert_reduced),
}
