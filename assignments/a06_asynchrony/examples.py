"""Inputs for trying a function out: supplied. ``ringside run`` and ``launch`` take them from here.

    ringside run callers_torch.py:diloco_trained --ranks 3 -- --num-steps 8 --period 4
    ringside run callers_torch.py:compressed --ranks 4 -- --shape '[8, 12]' --approx-rank 2

Data and gradients are drawn from ``--seed``.
"""

import cases_torch
import numpy as np

# -- diloco_torch ----------------------------------------------------------------------------------

DILOCO_OPTIONS = {
    "num_steps", "period", "num_fragments", "outer_lr", "outer_momentum", "inner", "widths",
    "frozen", "step_s",
}  # fmt: skip
DILOCO_INSTEAD = {  # models are made on the ranks
    "diloco_torch.py:train": "callers_torch.py:diloco_trained -- --num-steps 8 --period 4",
}


def diloco_case(world_size, options):
    """The case that the options describe."""
    others = options.others
    d, h, o = widths = tuple(others.get("widths", (3, 4, 2)))
    frozen = str(others.get("frozen", False)) == "True"
    return cases_torch.DilocoCase(
        "diloco_torch:train", world_size, h * d + h * (not frozen) + o * h + o, options.dtype,
        num_steps=int(others.get("num_steps", 8)), period=int(others.get("period", 4)),
        num_fragments=int(others.get("num_fragments", 1)),
        outer_lr=float(others.get("outer_lr", 1.0)),
        outer_momentum=float(others.get("outer_momentum", 0.0)),
        inner=str(others.get("inner", "sgd")), widths=widths, frozen=frozen,
        step_s=float(others.get("step_s", 0.0)), seed=options.seed,
    )  # fmt: skip


def diloco_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function == "diloco_refused":
        return diloco_case(world_size, options).numbers()
    if function != "diloco_trained":
        return None
    return diloco_case(world_size, options).arguments_of_ranks()[rank]


def diloco_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "diloco_refused":
        assert_refused(value, rank, case)
    elif function == "diloco_trained":
        factors = getattr(case, "factors", None)
        wanted = cases_torch.diloco_serial(diloco_case(case.world_size, options), factors)
        cases_torch.assert_diloco_params(value, rank, wanted, case)
    else:
        return False
    return True


def assert_refused(value, rank, case):
    """ValueError, before any loss."""
    error, called = value
    if error != "ValueError":
        raise case.fail(
            f"rank {rank} raised {error or 'nothing'}; it must be ValueError, on all ranks."
        )
    if called:
        raise case.fail(f"rank {rank} computed {called} losses before it raised ValueError.")


# -- compress_torch --------------------------------------------------------------------------------

COMPRESS_OPTIONS = {
    "shape", "approx_rank", "num_calls", "kind", "residual_shape", "other_shape", "num_steps",
}  # fmt: skip
COMPRESS_INSTEAD = {  # residuals and states are made on the ranks
    "compress_torch.py:all_reduce": (
        "callers_torch.py:compressed -- --shape '[8, 12]' --approx-rank 2"
    ),
}


def compress_case(world_size, options):
    """The case that the options describe."""
    others = options.others
    shape = tuple(others.get("shape", (8, 12)))
    return cases_torch.CompressCase(
        "compress_torch:all_reduce", world_size, int(np.prod(shape)), options.dtype,
        shape=shape, approx_rank=int(others.get("approx_rank", 2)),
        num_calls=int(others.get("num_calls", 3)), kind=str(others.get("kind", "random")),
        seed=options.seed,
    )  # fmt: skip


def compress_arguments(function, world_size, rank, options):
    """What the functions of ``callers_torch.py`` get after ``group``."""
    if function == "compress_refused":
        shape = [int(each) for each in options.others.get("residual_shape", (4, 6))]
        return int(options.others.get("approx_rank", 2)), shape
    case = compress_case(world_size, options)
    if function == "compressed":
        return case.arguments_of_ranks()[rank]
    if function == "compressed_in_turns":
        return cases_torch.turns_arguments(case)[rank]
    if function == "compress_trained":
        return cases_torch.least_squares(case, int(options.others.get("num_steps", 60)))[0][rank]
    return None


def compress_check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    if function == "compress_refused":
        if value != "ValueError":
            raise case.fail(f"rank {rank} raised {value or 'nothing'}; it must be ValueError.")
        return True
    mine = compress_case(case.world_size, options)
    gradients = mine.inputs()
    if function == "compressed" and mine.kind == "zeros":
        cases_torch.assert_zeros_values(value, rank, mine.approx_rank, gradients[rank], case)
    elif function == "compressed":
        wanted = cases_torch.compress_serial(gradients, mine.approx_rank, mine.seed)
        cases_torch.assert_compressed_values(value, rank, wanted, gradients, case)
    elif function == "compressed_in_turns":
        cases_torch.assert_in_turns(value, rank, mine, case)
    elif function == "compress_trained":
        _, best = cases_torch.least_squares(mine, int(options.others.get("num_steps", 60)))
        cases_torch.assert_converged(value, rank, best, case)
    else:
        return False
    return True


# -- all modules -----------------------------------------------------------------------------------

OPTIONS = {*DILOCO_OPTIONS, *COMPRESS_OPTIONS}
INSTEAD = {**DILOCO_INSTEAD, **COMPRESS_INSTEAD}
CHECKS = {
    "equal_params": lambda result, case, _: cases_torch.assert_equal_params(result, case),
    "equal_means": lambda result, case, _: cases_torch.assert_equal_means(result, case),
    "turns": lambda result, case, value: cases_torch.assert_diloco_turns(
        result, case, tuple(map(int, value.split(":")))
    ),
    "compressed": lambda result, case, value: cases_torch.assert_compressed_bytes(
        result, case, int(value)
    ),
}


def arguments(function, world_size, rank, options):
    """What rank ``rank`` gets after ``group``; None for functions that aren't known here."""
    given = diloco_arguments(function, world_size, rank, options)
    return compress_arguments(function, world_size, rank, options) if given is None else given


def expected(function, world_size, rank, options):
    """What rank ``rank`` should get; None: ``check`` knows."""
    return None


def check(case, function, rank, value, options):
    """Raise a verdict where what came back on a rank is not right; True: it was compared."""
    known = diloco_check(case, function, rank, value, options)
    return known or compress_check(case, function, rank, value, options)
