"""partition.py: what a plan costs, and the plan that costs least."""

import math
from functools import partial

from ringside.checking import Verdict, award, one_line
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import evaluated, plain
from ringside.checking.points import points_of
from ringside.units import format_count
from solutions.a10_pipedream import partition as reference
from solutions.a10_pipedream.hidden import plan_oracle as oracle
from solutions.a10_pipedream.profiles import VGG16, Layer, drawn, equal_layers, link

FREE = math.inf  # bytes per second of a link whose messages take no time

points = points_of("partition")


def shown(function, call):
    """How a sentence names a call, and the line that makes it."""
    told, given, *rest = call
    profile = told if isinstance(told, str) else format_count(len(profile_of(told)), "layer")
    words = [profile, *map(str, [given, *rest][: 2 if function != "partition" else 3])]
    if function == "partition":
        words[1] = format_count(given, "worker")
    if rest:
        words[2] = f"{rest[0]:g} bytes/s"
    if len(rest) > 1:
        words[3:] = [f"capacity_bytes={rest[1]}"]
    typed = ", ".join(repr(each) for each in call).replace("inf", "float('inf')")
    line = f"from callers import try_partition; try_partition('{function}', {typed})"
    return f"{function}({', '.join(words)})", f'python -c "{line}"'


def profile_of(told):
    """As ``callers.partition_profile``."""
    import numpy as np

    if isinstance(told, str):
        return VGG16
    if isinstance(told, tuple):
        return drawn(np.random.default_rng(told[0]), *told[1:])
    return [Layer(*numbers) for numbers in told]


def ask(ranks, function, calls):
    """Per call what came back, and how the call is named; an error where none is expected fails."""
    found = evaluated(
        ranks, "callers:partition_answers", f"partition:{function}", calls, partial(shown, function)
    )
    for call, (value, error) in zip(calls, found, strict=True):
        yield call, plain(value), error, *shown(function, call)


def some(rng, num_layers, weights=1.0, outputs=1.0):
    """A profile, told by its seed."""
    return int(rng.integers(2**31)), num_layers, weights, outputs


# -- what a plan costs -----------------------------------------------------------------------------


def check_numbers(ranks, function, calls, right):
    for call, value, error, where, line in ask(ranks, function, calls):
        wanted = right(*call)
        if error:
            raise Verdict(f"{where} raised {error}; it must be {wanted}.", reproduce=line)
        if isinstance(wanted, float):
            good = type(value) in (int, float) and math.isclose(value, wanted, rel_tol=1e-9)
        else:
            value = list(value) if isinstance(value, tuple) else value
            good = value == wanted and all(type(each) is int for each in value)
        if not good:
            said = one_line(repr(value), 200)
            raise Verdict(f"{where} is {said}; it must be {wanted!r}.", reproduce=line)


def right_time(told, plan, bytes_per_s):
    return float(oracle.time_s(profile_of(told), plan, bytes_per_s))


@points(12, "values")
def test_time_of_plans(ranks, rng):
    straight = []
    for n in (1, 2, 5, 9, 9):
        for outputs in (0.1, 10.0):
            plan = oracle.anything(rng, n, n, stages=min(n, 1 + n // 2))
            plan = [(lo, hi, 1) for lo, hi, _ in plan]
            straight.append((some(rng, n, 1.0, outputs), plan, 1e9))
    replicated = [  # the links take no time to speak of
        (some(rng, n, weights, 0.01), oracle.anything(rng, n, workers, stages), rate)
        for n, workers, stages in ((1, 4, 1), (3, 7, 2), (6, 16, 2), (8, 9, 3))
        for weights, rate in ((0.1, 1e9), (3.0, 1e9), (1.0, FREE))
    ]
    links = [
        (some(rng, n, 0.01, 10.0), [(0, n // 2, many), (n // 2, n, workers - many)], 1e9)
        for n, workers in ((2, 5), (5, 6), (8, 12))
        for many in (2, workers - 2)
    ]
    calls = {
        "plans without replicas": straight,
        "plans with replicas": replicated,
        "links between replicated stages": links,
    }
    check_kinds(calls, str, lambda kind: check_numbers(ranks, "plan_s", calls[kind], right_time))


@points(8, "memory")
def test_bytes_that_a_worker_keeps(ranks, rng):
    shapes = ((1, 1, 1), (1, 3, 1), (4, 4, 4), (6, 3, 2), (6, 16, 3), (9, 20, 4))
    calls = [(some(rng, n), oracle.anything(rng, n, *rest)) for n, *rest in shapes]
    calls += [(some(rng, 8), oracle.anything(rng, 8, 11)) for _ in range(4)]
    calls.append(("VGG16", [(0, 11, 15), (11, 16, 1)]))
    right = lambda told, plan: oracle.bytes_of(profile_of(told), plan)  # noqa: E731
    check_numbers(ranks, "plan_bytes", calls, right)


# -- plans -----------------------------------------------------------------------------------------


def planned(ranks, calls):
    """The student's plans, all of them legal: per call ``(call, plan, seconds, words, line)``."""
    for call, plan, error, where, line in ask(ranks, "partition", calls):
        if error:
            raise Verdict(f"{where} raised {error}; it must return a plan.", reproduce=line)
        profile = profile_of(call[0])
        wrong = illegal(plan, len(profile), call[1])
        if wrong:
            said = one_line(repr(plan), 200)
            raise Verdict(f"{where} is {said}: {wrong}.", reproduce=line)
        plan = [tuple(stage) for stage in plan]
        if len(call) > 3:
            for stage, needed in enumerate(oracle.bytes_of(profile, plan)):
                if needed > call[3]:
                    raise Verdict(
                        f"{where} is {one_line(repr(plan), 200)}, which needs {needed} bytes in "
                        f"stage {stage}; {call[3]} are there.",
                        reproduce=line,
                    )
        yield call, plan, oracle.time_s(profile, plan, call[2]), where, line


def illegal(plan, num_layers, num_workers):
    """What is wrong with the form of a plan; None: nothing."""
    if not isinstance(plan, list | tuple) or not plan:
        return "it must be a list of stages"
    if not all(isinstance(stage, list | tuple) and len(stage) == 3 for stage in plan):
        return "each stage must be a tuple (lo, hi, replicas)"
    if not all(type(number) is int for stage in plan for number in stage):
        return "lo, hi and replicas must be whole numbers"
    edges = [0] + [hi for _, hi, _ in plan]
    if [lo for lo, _, _ in plan] != edges[:-1] or edges[-1] != num_layers:
        return f"each of layers 0 to {num_layers - 1} must be in one stage, in order"
    if any(hi <= lo or replicas < 1 for lo, hi, replicas in plan):
        return "each stage must have a layer and a worker"
    used = sum(replicas for _, _, replicas in plan)
    return f"it uses {used} workers of {num_workers}" if used > num_workers else None


def check_shortest(ranks, calls):
    """As short as the shortest of all plans."""
    for call, plan, time_s, where, line in planned(ranks, calls):
        best_s = oracle.shortest_s(profile_of(call[0]), *call[1:])
        if time_s > best_s * (1 + 1e-9):
            raise Verdict(
                f"{where} is {one_line(repr(plan), 200)}, which takes {time_s:.9g} s; the shortest "
                f"plan takes {best_s:.9g} s.",
                reproduce=line,
            )


@points(10, "values")
def test_plans_where_messages_are_free(ranks, rng):
    shapes = ((3, 2), (4, 3), (5, 4), (6, 3), (7, 4), (8, 4), (8, 4))
    check_shortest(ranks, [(some(rng, n), workers, FREE) for n, workers in shapes])


@points(12, "values")
def test_plans_where_activations_take_long(ranks, rng):
    # Weights so heavy that no stage is replicated: what decides is between which layers to cut.
    calls = [
        (some(rng, n, 1e4, outputs), workers, 1e9)
        for n, workers in ((2, 2), (4, 3), (6, 4), (8, 4), (8, 3))
        for outputs in (1.0, 4.0)
    ]
    check_shortest(ranks, calls)


@points(8, "values")
def test_plans_where_averaging_takes_long(ranks, rng):
    # Outputs of no size: what decides is which layers to replicate, and how often. With very heavy
    # weights some workers are left idle.
    calls = [
        (some(rng, n, weights, 0.0), workers, 1e9)
        for n, workers in ((1, 4), (2, 4), (4, 4), (6, 4), (8, 4))
        for weights in (1.0, 8.0)
    ]
    check_shortest(ranks, calls)


@points(6, "values")
def test_plans_where_everything_counts(ranks, rng):
    calls = [
        (some(rng, n, weights, outputs), workers, rate)
        for n, workers in ((5, 4), (8, 4))
        for weights, outputs in ((1.0, 1.0), (0.2, 2.0), (3.0, 0.3))
        for rate in (3e8, 1e9, 4e9)
    ]
    check_shortest(ranks, calls)


@points(5, "values")
def test_one_layer_and_one_worker(ranks, rng):
    # And more workers than layers.
    def check(shape):
        check_shortest(ranks, [(some(rng, shape[0], 0.1, 0.1), shape[1], 1e9)])

    def kind(shape):
        return "one worker" if shape[1] == 1 else "more workers than layers"

    check_kinds(((1, 1), (1, 4), (5, 1), (2, 4), (3, 4)), kind, check)


def check_vgg16(ranks, rates, alone):
    """As short as the best 15-1; ``alone``: no other plan is."""
    for call, plan, time_s, where, line in planned(ranks, [("VGG16", 16, rate) for rate in rates]):
        published_s = min(
            oracle.time_s(VGG16, [(0, cut, 15), (cut, 16, 1)], call[2]) for cut in range(1, 16)
        )
        other = alone and [replicas for *_, replicas in plan] != [15, 1]
        if time_s > published_s * (1 + 1e-9) or other:
            raise Verdict(
                f"{where} is {one_line(repr(plan), 200)}, which takes {time_s * 1e3:.6g} ms; the "
                f"best plan with 15 workers in the first stage and 1 in the second, as it was "
                f"published, takes {published_s * 1e3:.6g} ms.",
                reproduce=line,
            )


@points(8, "values")
def test_published_plan_of_vgg16(ranks):
    # On slow links the one between the stages takes longest, and other plans are as fast.
    rates = {"fast links": (3.125e9, 6e9, 12e9), "slow links": (1.25e9, 2e9)}
    weights = {"fast links": 5.0, "slow links": 3.0}
    check_kinds(
        rates,
        str,
        lambda kind: check_vgg16(ranks, rates[kind], alone=kind == "fast links"),
        weights=weights,
    )


# -- capacity --------------------------------------------------------------------------------------


def tight(rng, shapes):
    """Calls whose best plan doesn't fit, but others do, which need exactly what there is.

    Messages are free: what they cost is another test's matter.
    """
    calls = []
    for n, workers in shapes:
        while True:
            told = some(rng, n, 1.0, 0.5)
            profile = profile_of(told)
            several = sorted(
                (oracle.time_s(profile, plan, FREE), max(oracle.bytes_of(profile, plan)))
                for plan in oracle.plans(n, workers)
            )
            least = min(needed for _, needed in several)
            _, most = several[0]
            between = sorted({need for _, need in several if least < need < most})
            if between:
                break
        calls += [
            (told, workers, FREE, least),
            (told, workers, FREE, between[len(between) // 2]),
            (told, workers, FREE, most - 1),
        ]
    return calls


@points(10, "memory")
def test_shortest_plan_that_fits(ranks, rng):
    check_shortest(ranks, tight(rng, ((3, 4), (4, 3), (6, 4), (7, 4), (8, 4), (8, 4))))


@points(6, "safety")
def test_refuses_where_no_plan_fits(ranks, rng):
    # One layer's weights alone are too large. What else a worker keeps is another test's matter.
    calls = []
    for n, workers in ((1, 1), (1, 3), (4, 3), (8, 4)):
        told = some(rng, n)
        largest = max(layer.weight_bytes for layer in profile_of(told))
        calls.append((told, workers, 1e9, largest - 1))
    calls.append(("VGG16", 2, 1e9, 4 * 10**8))
    for _, plan, error, where, line in ask(ranks, "partition", calls):
        if error != "ValueError":
            said = f"raised {error}" if error else f"is {one_line(repr(plan), 100)}"
            raise Verdict(f"{where} {said}; it must raise ValueError.", reproduce=line)


# -- long profiles ---------------------------------------------------------------------------------


def check_ratio(ranks, calls):
    """All calls together take at most 1.05 times the shortest plans' time, half to 1.5."""
    found = []
    for call, plan, time_s, where, line in planned(ranks, calls):
        profile, (_, workers, rate) = profile_of(call[0]), call
        best = reference.partition(profile, workers, link(rate))
        best_s = oracle.time_s(profile, best, rate)
        equal_s = oracle.time_s(profile, equal_layers(len(profile), workers), rate)
        found.append((time_s, best_s, equal_s, plan, where, line))
    ratio = sum(each[0] for each in found) / sum(each[1] for each in found)
    time_s, best_s, equal_s, plan, where, line = max(found, key=lambda each: each[0] / each[1])
    award(
        1.0 if ratio <= 1.05 else 0.5 if ratio <= 1.5 else 0.0,
        f"{where} is {one_line(repr(plan), 200)}, which takes {time_s:.6g} s; the shortest plan "
        f"takes {best_s:.6g} s, and stages of equally many layers {equal_s:.6g} s. All "
        f"{len(calls)} calls together take {ratio:.3f} times as long as the shortest plans; 1.05 "
        "times is asked for, and half of the points go to 1.5.",
        reproduce=line,
    )


@points(6, "speed")
def test_better_than_equally_many_layers(ranks, rng):
    calls = [
        (some(rng, n, 0.3, 0.3), workers, rate)
        for n, workers in ((12, 6), (14, 5), (16, 4))
        for rate in (1e9, 5e9)
    ]
    check_ratio(ranks, calls)


@points(9, "speed")
def test_fifty_layers_on_sixty_four_workers(ranks, rng):
    # Last of all: a planner that tries all plans spends the CPU time of this module here.
    check_ratio(ranks, [(some(rng, 50, 0.3, 0.3), 64, 5e9)])
