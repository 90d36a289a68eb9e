"""warmup.py: linear scaling, warm-up and decay."""

import math
from functools import partial

import numpy as np

from ringside.checking import Verdict
from ringside.checking.formulas import answered
from ringside.checking.points import points_of

points = points_of("warmup")


def right_lr(step, base_lr, k, warmup_steps, milestones=(), decay=0.1):
    """The rate by the docstring, in another way than the reference."""
    if step < warmup_steps:
        lr = base_lr + (k * base_lr - base_lr) * step / warmup_steps
    else:
        lr = k * base_lr
    for milestone in milestones:
        if step >= milestone:
            lr *= decay
    return lr


def right_schedule(
    n, num_epochs, local, world_size, base_lr, base, warmup_epochs=5, milestones=(), decay=0.1
):
    per_epoch = math.ceil(n / (local * world_size))
    at = [epoch * per_epoch for epoch in milestones]
    k, warm = local * world_size / base, warmup_epochs * per_epoch
    return [right_lr(s, base_lr, k, warm, at, decay) for s in range(num_epochs * per_epoch)]


def shown(function, call):
    """How a sentence names a call, and the line that makes it."""
    where = f"{function}({', '.join(f'{each!r}' for each in call)})"
    return where, f'python -c "from warmup import *; print({where})"'


def ask(ranks, function, calls):
    """Evaluate a function on one rank, for a list of argument tuples."""
    told = partial(shown, function)
    return answered(ranks, "callers:evaluated", f"warmup:{function}", list(calls), told)


def number(value):
    """A float, NumPy's as Python's, or None."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "fi":
        value = value.item()
    return value if type(value) in (int, float) else None


def check_numbers(ranks, function, right, calls):
    for call, value in zip(calls, ask(ranks, function, calls), strict=True):
        wanted, got = right(*call), number(value)
        where, line = shown(function, call)
        if got is None:
            raise Verdict(
                f"{where} is of type {type(value).__name__}; it must be a float.", reproduce=line
            )
        if not math.isclose(got, wanted, rel_tol=1e-12):
            raise Verdict(f"{where} is {got:.12g}; it must be {wanted:.12g}.", reproduce=line)


def check_schedules(ranks, calls):
    for call, value in zip(calls, ask(ranks, "schedule", calls), strict=True):
        wanted, (where, line) = right_schedule(*call), shown("schedule", call)
        rates = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(rates, list | tuple):
            raise Verdict(f"{where} must be a list, not {type(value).__name__}.", reproduce=line)
        if len(rates) != len(wanted):
            raise Verdict(
                f"{where} has {len(rates)} steps; it must have {len(wanted)}.", reproduce=line
            )
        for step, (rate, right) in enumerate(zip(rates, wanted, strict=True)):
            got = number(rate)
            if got is None or not math.isclose(got, right, rel_tol=1e-12):
                raise Verdict(
                    f"{where}: step {step} has {rate}; it must have {right:.12g}.", reproduce=line
                )


def rates(rng, count):
    """Learning rates and factors."""
    return [(float(a), float(b)) for a, b in rng.uniform((0.01, 1.5), (0.5, 20), size=(count, 2))]


@points(12, "values")
def test_scale_is_the_global_batch_over_the_base(ranks, rng):
    calls = [(32, 8, 256), (64, 128, 256), (1, 1, 1), (8, 4, 48), (7, 3, 10), (2, 8, 256)]
    calls += [tuple(int(i) for i in rng.integers(1, 500, size=3)) for _ in range(5)]
    check_numbers(ranks, "scale", lambda local, p, base: local * p / base, calls)


@points(16, "values")
def test_ends_of_the_warm_up(ranks, rng):
    calls = []
    for base_lr, k in rates(rng, 4):
        for warm in (1, 2, 7, 100):
            calls += [(step, base_lr, k, warm) for step in (0, warm - 1, warm, warm + 1)]
    check_numbers(ranks, "lr_at", right_lr, calls)


@points(12, "values")
def test_a_straight_line_between_them(ranks, rng):
    calls = [(s, lr, k, 13) for lr, k in rates(rng, 3) for s in range(16)]
    check_numbers(ranks, "lr_at", right_lr, calls)


@points(8, "values")
def test_no_warm_up(ranks, rng):
    calls = [(s, lr, k, 0) for lr, k in rates(rng, 3) for s in (0, 1, 50)]
    check_numbers(ranks, "lr_at", right_lr, calls)


@points(8, "values")
def test_small_batches_scale_down(ranks, rng):
    calls = [(s, lr, 1 / k, 6) for lr, k in rates(rng, 3) for s in range(8)]
    calls += [(s, 0.1, 1.0, 4) for s in range(6)]
    check_numbers(ranks, "lr_at", right_lr, calls)


@points(14, "schedule")
def test_milestones(ranks, rng):
    calls = []
    for lr, k in rates(rng, 2):
        for decay in (0.1, 0.5):
            for places in ((20,), (20, 30, 35), (35, 20), (3, 20), (20, 20), (0, 20)):
                calls += [(s, lr, k, 5, places, decay) for s in (5, 6, 19, 20, 21, 30, 34, 40)]
    calls += [(s, 0.2, 3.0, 5, (4, 9)) for s in (5, 8, 9)]
    check_numbers(ranks, "lr_at", right_lr, calls)


@points(12, "schedule")
def test_schedule_has_a_rate_for_each_step(ranks, rng):
    calls = [
        (n, 3, b, p, 0.1, b * p, 1) for n in (96, 100, 1437, 5) for b, p in ((8, 4), (4, 1), (3, 7))
    ]
    check_schedules(ranks, calls)


@points(12, "schedule")
def test_schedule_is_scaled_by_the_global_batch(ranks, rng):
    lr = float(rng.uniform(0.01, 0.5))
    calls = [(200, 4, 8, p, lr, base, warm) for p in (1, 2, 3, 8) for base in (8, 48)
             for warm in (0, 2, 6)]  # fmt: skip
    calls += [(200, 7, 8, 2, lr, 8)]
    check_schedules(ranks, calls)


@points(6, "schedule")
def test_schedule_decays_at_the_start_of_epochs(ranks, rng):
    lr = float(rng.uniform(0.01, 0.5))
    calls = [
        (100, 6, 8, 4, lr, 32, 2, (3, 5)),
        (100, 6, 8, 4, lr, 32, 0, (1,), 0.5),
        (99, 4, 5, 2, lr, 10, 1, (2, 3), 0.2),
        (60, 5, 5, 2, lr, 10, 3, (1, 4), 0.3),
        (60, 4, 5, 2, lr, 10, 1, (0, 2), 0.3),
    ]
    check_schedules(ranks, calls)
