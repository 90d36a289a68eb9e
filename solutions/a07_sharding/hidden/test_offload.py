"""offload.py: plans that fit, and that are as short as any."""

import math

from ringside.checking import Verdict, award, one_line
from ringside.checking.formulas import evaluated
from ringside.checking.points import points_of
from solutions.a07_sharding.hidden import plan_oracle as oracle
from solutions.a07_sharding.offload_model import CHOICES, Layer, makespan_s

points = points_of("offload")


def shown(call):
    """How a sentence names a call, and the line that makes it."""
    numbers, capacity, host = call
    where = f"schedule of {len(numbers)} layers with {capacity} bytes and {host} bytes/s"
    line = f"from callers import try_offload; try_offload({numbers}, {capacity}, {host})"
    return where, f'python -c "{line}"'


def timed(ranks, calls):
    """Makespans of the student's plans, all of which have the right words and fit."""
    found = evaluated(ranks, "callers:offload_plans", "offload:schedule", calls, shown)
    times_s = []
    for call, (plan, error) in zip(calls, found, strict=True):
        where, line = shown(call)
        numbers, capacity, host = call
        if error:
            raise Verdict(f"The {where} raised {error}; it must be a list.", reproduce=line)
        words = plan if isinstance(plan, list | tuple) else [plan]
        if len(words) != len(numbers) or not all(word in CHOICES for word in words):
            raise Verdict(
                f"The {where} is {one_line(repr(plan), 300)}; it must be one of "
                f"{', '.join(CHOICES)} for each layer.",
                reproduce=line,
            )
        times_s.append(makespan_s(layers(numbers), list(words), capacity, host))
        if math.isinf(times_s[-1]):
            raise Verdict(
                f"The {where} is {list(words)}, which needs more than the capacity.",
                reproduce=line,
            )
    return times_s


def layers(numbers):
    return [Layer(*each) for each in numbers]


def check_shortest(ranks, calls, shortest=oracle.shortest_s):
    for call, time_s in zip(calls, timed(ranks, calls), strict=True):
        best_s = shortest(layers(call[0]), *call[1:])
        if time_s > best_s * (1 + 1e-9):
            where, line = shown(call)
            raise Verdict(
                f"The makespan of the {where} is {time_s:.6g} s; the shortest is {best_s:.6g} s.",
                reproduce=line,
            )


@points(12, "memory")
def test_plans_fit(ranks, rng):
    calls = [oracle.drawn(rng, n) for n in (3, 5, 6, 7, 12)]
    tight = [(numbers, max(n for *_, n in numbers), host) for numbers, _, host in calls]
    for call, time_s in zip(calls + tight, timed(ranks, calls + tight), strict=True):
        numbers, *limits = call
        again_s = makespan_s(layers(numbers), ["recompute"] * len(numbers), *limits)
        if time_s >= again_s:
            where, line = shown(call)
            raise Verdict(
                f"The makespan of the {where} is {time_s:.6g} s; to recompute every layer takes "
                f"{again_s:.6g} s.",
                reproduce=line,
            )


def pays_later(pace):
    """Five layers for which the best plan of the first ones isn't part of the best plan of all."""
    numbers = [(3, 5, 10), (5, 10, 3), (8, 11, 23), (1, 12, 14), (3, 13, 12)]
    return [(pace * f, pace * b, nbytes) for f, b, nbytes in numbers], 47, 0.62 / pace


@points(36, "values")
def test_as_short_as_any_plan(ranks, rng):
    calls = [oracle.drawn(rng, n) for n in (2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8)]
    check_shortest(ranks, [*calls, pays_later(int(rng.integers(1, 5)))])


@points(10, "values")
def test_keeps_everything_where_it_fits(ranks, rng):
    calls = []
    for n in (1, 4, 8, 16):
        numbers, _, host = oracle.drawn(rng, n)
        calls.append((numbers, sum(each for *_, each in numbers), host))

    def computing(layers, *_):
        return sum(layer.forward_s + layer.backward_s for layer in layers)

    check_shortest(ranks, calls, computing)


@points(14, "values")
def test_with_a_fast_and_a_slow_link(ranks, rng):
    check_shortest(ranks, [oracle.drawn(rng, 6, host) for host in (0.01, 0.01, 20.0, 20.0)])


@points(12, "values")
def test_equal_layers_and_layers_without_activations(ranks, rng):
    forward, backward, nbytes = (int(each) for each in rng.integers(2, 9, size=3))
    alike = [(forward, backward, nbytes)] * 7
    empty = [(3, 6, 10), (2, 4, 0), (5, 9, 12), (1, 1, 0), (4, 8, 7)]
    calls = [(alike, 3 * nbytes, 1.5), (alike, 2 * nbytes + 1, 4.0), (empty, 15, 3.0), ([], 5, 1.0)]
    check_shortest(ranks, calls)


@points(4, "safety")
def test_refuses_where_nothing_fits(ranks, rng):
    numbers, _, host = oracle.drawn(rng, 5)
    short = max(n for *_, n in numbers) - 1
    calls = [(numbers, short, host), ([(1, 2, 9)], 8, 1.0), (numbers[::-1], short, host)]
    found = evaluated(ranks, "callers:offload_plans", "offload:schedule", calls, shown)
    for call, (plan, error) in zip(calls, found, strict=True):
        if error != "ValueError":
            where, line = shown(call)
            said = f"raised {error}" if error else f"is {one_line(repr(plan), 300)}"
            raise Verdict(f"The {where} {said}; it must raise ValueError.", reproduce=line)


@points(12, "speed")
def test_time_of_long_models(ranks, rng):
    calls = [oracle.drawn(rng, n, host) for n, host in ((9, 0.4), (14, 0.8), (19, 0.4), (24, 0.4))]
    worst = (0.0, 0.0, 0.0, calls[0])
    for call, time_s in zip(calls, timed(ranks, calls), strict=True):
        best_s = oracle.reference_s(layers(call[0]), *call[1:])
        worst = max(worst, (time_s / best_s, time_s, best_s, call))
    ratio, time_s, best_s, call = worst
    if ratio > 1.05:
        where, line = shown(call)
        award(
            0.5 if ratio <= 1.5 else 0.0,
            f"The makespan of the {where} is {time_s:.6g} s; the reference's is {best_s:.6g} s.",
            reproduce=line,
        )
