"""cost.py: closed forms, and the choice that they allow."""

import math
from functools import partial

from ringside import Machine
from ringside.checking import Verdict, one_line
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import evaluated
from ringside.checking.points import points_of
from solutions.a03_allreduce import cost as reference

NAMES = ("star", "sharded_server", "ring", "recursive_doubling", "halving_doubling")
POWERS_OF_TWO = (2, 4, 8, 16, 64, 1024)
OTHER_SIZES = (3, 5, 6, 7, 12, 48, 100)
MACHINES = ((1e-6, 1e-9), (2.5e-5, 8e-11), (1e-3, 1e-8), (0.0, 1e-9), (1e-6, 0.0))

points = points_of("cost")


def sizes(world_size):
    """Vectors that every scheme can cut evenly, from none and a few bytes to gigabytes."""
    unit = 8 * math.lcm(world_size, 1 << (world_size.bit_length() - 1))
    return [unit * times for times in (0, 1, 17, 1024, 100_003, 5_000_000)]


def ask(ranks, function, calls):
    return evaluated(ranks, "callers:formulas", f"cost:{function}", calls, partial(shown, function))


def shown(function, call):
    """How a sentence names a call, and the line that makes it."""
    nbytes, world_size, alpha_s, beta = call
    machine = f"ringside.Machine('asked', {alpha_s!r}, {beta!r})"
    arguments = f"{nbytes}, {world_size}, {machine}"
    return (
        f"{function}({nbytes}, {world_size}, machine) with alpha_s = {alpha_s:g}, "
        f"beta_s_per_byte = {beta:g}",
        f'python -c "import cost, ringside; print(cost.{function}({arguments}))"',
    )


def check_formula(ranks, rng, name, world_sizes):
    function = f"{name}_s"
    drawn = (float(10 ** rng.uniform(-7, -4)), float(10 ** rng.uniform(-11, -8)))
    calls = [
        (nbytes, world_size, *machine)
        for machine in (*MACHINES, drawn)
        for world_size in (*world_sizes, 1)
        for nbytes in sizes(world_size)
    ]
    answers = list(zip(calls, ask(ranks, function, calls), strict=True))
    check_kinds(
        answers, lambda answer: kind_of(answer[0]), partial(check, function), weights=WEIGHTS
    )


WEIGHTS = {"more ranks and bytes": 3.0}


def kind_of(call):
    """Special cases of a formula have a share of their own."""
    nbytes, world_size, *_ = call
    if world_size == 1:
        return "one rank"
    return "more ranks and bytes" if nbytes else "messages of no bytes"


def check(function, answer):
    """One value of a formula."""
    call, value = answer
    nbytes, world_size, alpha_s, beta = call
    machine = Machine("asked", alpha_s=alpha_s, beta_s_per_byte=beta)
    right = getattr(reference, function)(nbytes, world_size, machine)
    where, line = shown(function, call)
    if type(value) not in (int, float):
        raise Verdict(
            f"{where} is of type {type(value).__name__}; it must be a number.", reproduce=line
        )
    if not math.isclose(value, right, rel_tol=1e-6, abs_tol=1e-18):
        raise Verdict(f"{where} is {value:.6g} s; it must be {right:.6g} s.", reproduce=line)


def check_choice(ranks, calls):
    for call, name in zip(calls, ask(ranks, "choose", calls), strict=True):
        nbytes, world_size, alpha_s, beta = call
        machine = Machine("asked", alpha_s=alpha_s, beta_s_per_byte=beta)
        times = {
            each: getattr(reference, f"{each}_s")(nbytes, world_size, machine) for each in NAMES
        }
        where, line = shown("choose", call)
        if not isinstance(name, str) or name not in times:
            raise Verdict(
                f"{where} is {one_line(repr(name), 60)}; it must be one of {', '.join(NAMES)}.",
                reproduce=line,
            )
        best = min(times, key=times.__getitem__)
        if times[name] > 1.05 * times[best] + 1e-15:
            raise Verdict(
                f"{where} is {name!r}, which takes {times[name] * 1e6:.6g} µs; "
                f"{best!r} takes {times[best] * 1e6:.6g} µs.",
                reproduce=line,
            )


def grid(world_sizes, alpha_s, beta):
    """Sizes that go through every crossover: none to 256 MB, four to each power of ten."""
    nbytes = sorted({0, 4} | {8 * round(10 ** (exponent / 4)) for exponent in range(31)})
    return [(size, world_size, alpha_s, beta) for world_size in world_sizes for size in nbytes]


@points(9, "values")
def test_star(ranks, rng):
    check_formula(ranks, rng, "star", (*POWERS_OF_TWO, *OTHER_SIZES))


@points(9, "values")
def test_sharded_server(ranks, rng):
    check_formula(ranks, rng, "sharded_server", (*POWERS_OF_TWO, *OTHER_SIZES))


@points(10, "values")
def test_ring(ranks, rng):
    check_formula(ranks, rng, "ring", (*POWERS_OF_TWO, *OTHER_SIZES))


@points(8, "values")
def test_recursive_doubling_at_powers_of_two(ranks, rng):
    check_formula(ranks, rng, "recursive_doubling", POWERS_OF_TWO)


@points(8, "values")
def test_recursive_doubling_at_other_sizes(ranks, rng):
    check_formula(ranks, rng, "recursive_doubling", OTHER_SIZES)


@points(8, "values")
def test_halving_doubling_at_powers_of_two(ranks, rng):
    check_formula(ranks, rng, "halving_doubling", POWERS_OF_TWO)


@points(8, "values")
def test_halving_doubling_at_other_sizes(ranks, rng):
    check_formula(ranks, rng, "halving_doubling", OTHER_SIZES)


@points(15, "speed")
def test_choice_at_powers_of_two(ranks, rng):
    check_choice(ranks, grid((1, *POWERS_OF_TWO), 1e-6, 1e-9))


@points(15, "speed")
def test_choice_at_other_sizes(ranks, rng):
    check_choice(ranks, grid(OTHER_SIZES, 1e-6, 1e-9))


@points(10, "speed")
def test_choice_follows_the_machine(ranks, rng):
    drawn = (float(10 ** rng.uniform(-6, -4)), float(10 ** rng.uniform(-11, -9)))
    free = {(0.0, 1e-9): "machines without latency", (1e-6, 0.0): "machines of any bandwidth"}
    check_kinds(
        [(2.5e-5, 8e-11), (1e-3, 1e-8), drawn, *free],
        lambda machine: free.get(machine, "other machines"),
        lambda machine: check_choice(ranks, grid((2, 4, 7, 16, 100), *machine)),
        weights={"other machines": 3.0},
    )
