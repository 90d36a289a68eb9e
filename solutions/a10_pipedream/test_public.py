"""Public tests: one for each kind of thing that the hidden suite asks."""

import itertools

import pytest
from profiles import VGG16, equal_layers

from ringside.checking import Verdict, award

# -- partition -------------------------------------------------------------------------------------

SMALL = ((4, 10**9, 10**9), (2, 10**9, 10**9), (2, 10**9, 2 * 10**9))  # the docstring's example
FIVE = [(2, 4 * 10**8, 10**8), (1, 9 * 10**8, 10**8), (3, 10**8, 5 * 10**8),
        (2, 3 * 10**8, 2 * 10**9), (1, 10**7, 3 * 10**9)]  # fmt: skip
FREE = float("inf")


def partition_line(function, call):
    words = ", ".join(repr(each) for each in call).replace("inf", "float('inf')")
    return f"python -c \"from callers import try_partition; try_partition('{function}', {words})\""


def ask_planner(ranks, function, call):
    """What a function of ``partition.py`` gives, and its error."""
    target = f"partition:{function}"
    result = ranks.call("callers:partition_answers", 1, [(target, [call])])
    return result.raise_for_error().values[0][0]


def check_planner(ranks, function, call, right):
    value, error = ask_planner(ranks, function, call)
    if error or value != right:
        raise Verdict(
            f"{function} {f'raised {error}' if error else f'is {value}'}; it must be {right}.",
            reproduce=partition_line(function, call),
        )


def stage_numbers(layers, lo, hi):
    return [sum(layer[kind] for layer in layers[lo:hi]) for kind in range(3)]


def cost_of(layers, plan, bytes_per_s):
    """Seconds, and bytes of the worker that needs most: the docstring's formulas once more."""
    seconds, needed, workers = 0.0, 0, 0
    for lo, hi, replicas in plan[::-1]:
        computing, outputs, weights = stage_numbers(layers, lo, hi)
        averaging = 2 * weights * (replicas - 1) / bytes_per_s
        link_s = 2 * layers[hi - 1][1] / bytes_per_s if hi < len(layers) else 0.0
        seconds = max(seconds, computing / replicas, averaging / replicas, link_s)
        workers += replicas
        needed = max(needed, (workers + replicas - 1) // replicas * (weights + outputs))
    return seconds, needed


def all_plans(num_layers, num_workers, lo=0):
    if lo == num_layers:
        yield []
    for hi, replicas in itertools.product(range(lo + 1, num_layers + 1), range(1, num_workers + 1)):
        for rest in all_plans(num_layers, num_workers - replicas, hi):
            yield [(lo, hi, replicas), *rest]


def check_plan(ranks, layers, num_workers, bytes_per_s, capacity=None):
    """The student's plan is legal, fits, and is as short as the shortest of all plans."""
    call = (list(layers), num_workers, bytes_per_s, capacity)
    plan, error = ask_planner(ranks, "partition", call)
    line = partition_line("partition", call)
    if error:
        raise Verdict(f"partition raised {error}; it must return a plan.", reproduce=line)
    legal = list(all_plans(len(layers), num_workers))
    if not isinstance(plan, list) or [tuple(stage) for stage in plan] not in legal:
        raise Verdict(
            f"partition is {plan}, which is no plan of {len(layers)} layers on at most "
            f"{num_workers} workers.",
            reproduce=line,
        )
    time_s, needed = cost_of(layers, plan, bytes_per_s)
    if capacity is not None and needed > capacity:
        raise Verdict(
            f"The plan {plan} needs {needed} bytes a worker; {capacity} are there.", reproduce=line
        )
    costs = [cost_of(layers, each, bytes_per_s) for each in legal]
    best_s = min(each_s for each_s, most in costs if capacity is None or most <= capacity)
    if time_s > best_s * (1 + 1e-9):
        raise Verdict(
            f"The plan {plan} takes {time_s:.9g} s; the shortest takes {best_s:.9g} s.",
            reproduce=line,
        )


@pytest.mark.points(12, kind="values", module="partition")
def test_time_of_plans(ranks):
    check_planner(ranks, "plan_s", (SMALL, [(0, 1, 2), (1, 3, 1)], 1e9), 4.0)
    check_planner(ranks, "plan_s", (SMALL, [(0, 2, 2), (2, 3, 1)], 1e9), 3.0)
    check_planner(ranks, "plan_s", (SMALL, [(0, 2, 1), (2, 3, 1)], 2.5e8), 8.0)
    check_planner(ranks, "plan_s", (SMALL, [(0, 3, 4)], 1e9), 6.0)
    check_planner(ranks, "plan_s", (SMALL, [(0, 3, 4)], FREE), 2.0)


@pytest.mark.points(8, kind="memory", module="partition")
def test_bytes_that_a_worker_keeps(ranks):
    gb = 10**9
    check_planner(ranks, "plan_bytes", (SMALL, [(0, 1, 2), (1, 3, 1)]), [4 * gb, 5 * gb])
    straight = [(0, 1, 1), (1, 2, 1), (2, 3, 1)]
    check_planner(ranks, "plan_bytes", (SMALL, straight), [6 * gb, 4 * gb, 3 * gb])
    check_planner(ranks, "plan_bytes", (SMALL, [(0, 2, 1), (2, 3, 3)]), [16 * gb, 3 * gb])


@pytest.mark.points(12, kind="values", module="partition")
def test_plans_where_messages_are_free(ranks):
    for layers, workers in ((SMALL, 2), (SMALL, 4), (FIVE, 3), (FIVE, 4)):
        check_plan(ranks, layers, workers, FREE)


@pytest.mark.points(22, kind="values", module="partition")
def test_shortest_plans(ranks):
    for layers, workers in ((SMALL, 3), (FIVE, 3), (FIVE, 4), (FIVE[:1], 4), (FIVE, 1)):
        for bytes_per_s in (2e8, 1e9, 5e9):
            check_plan(ranks, layers, workers, bytes_per_s)


@pytest.mark.points(13, kind="values", module="partition")
def test_published_plan_of_vgg16(ranks):
    layers = [(each.compute_s, each.output_bytes, each.weight_bytes) for each in VGG16]
    for bytes_per_s in (1.25e9, 6e9):
        call = ("VGG16", 16, bytes_per_s)
        plan, error = ask_planner(ranks, "partition", call)
        published_s = min(
            cost_of(layers, [(0, cut, 15), (cut, 16, 1)], bytes_per_s)[0] for cut in range(1, 16)
        )
        taken_s = FREE if error else cost_of(layers, plan, bytes_per_s)[0]
        if taken_s > published_s * (1 + 1e-9):
            raise Verdict(
                f"The plan of VGG-16 is {error or plan} and takes {taken_s:.6g} s; with 15 workers "
                f"in the first stage and 1 in the second it takes {published_s:.6g} s.",
                reproduce=partition_line("partition", call),
            )


@pytest.mark.points(12, kind="memory", module="partition")
def test_shortest_plan_that_fits(ranks):
    check_plan(ranks, SMALL, 3, 1e9, 5 * 10**9)
    for layers, workers in ((FIVE, 3), (FIVE, 4)):
        needed = sorted(cost_of(layers, plan, 1e9)[1] for plan in all_plans(len(layers), workers))
        for capacity in (needed[0], needed[len(needed) // 3], needed[-1]):
            check_plan(ranks, layers, workers, 1e9, capacity)


@pytest.mark.points(6, kind="safety", module="partition")
def test_refuses_where_no_plan_fits(ranks):
    call = (FIVE, 4, 1e9, 2 * 10**9)
    plan, error = ask_planner(ranks, "partition", call)
    if error != "ValueError":
        raise Verdict(
            f"No plan fits, and partition {f'raised {error}' if error else f'is {plan}'}; it must "
            "raise ValueError.",
            reproduce=partition_line("partition", call),
        )


@pytest.mark.points(15, kind="speed", module="partition")
def test_long_profiles(ranks):
    for seed, num_layers, workers in ((1, 14, 5), (2, 50, 64)):
        call = ((seed, num_layers, 0.3, 0.3), workers, 5e9)
        plan, error = ask_planner(ranks, "partition", call)
        from callers import partition_profile

        layers = [
            (each.compute_s, each.output_bytes, each.weight_bytes)
            for each in partition_profile(call[0])
        ]
        equal_s = cost_of(layers, equal_layers(num_layers, workers), 5e9)[0]
        taken_s = FREE if error else cost_of(layers, plan, 5e9)[0]
        award(
            float(taken_s <= equal_s / 1.2),
            f"The plan of {num_layers} layers on {workers} workers takes {taken_s:.6g} s; stages "
            f"of equally many layers take {equal_s:.6g} s, and it must be 1.2 times as fast.",
            reproduce=partition_line("partition", call),
        )
