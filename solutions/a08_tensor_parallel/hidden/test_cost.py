"""cost.py: bytes to the byte, against what the network counts of the same traffic."""

import math
from functools import partial

import numpy as np

from ringside.checking import Case, Verdict, assert_ran, buffered, one_line
from ringside.checking.case_kinds import check_kinds
from ringside.checking.formulas import evaluated, plain
from ringside.checking.points import points_of
from ringside.checking.ring_bytes import sent_as_ring
from solutions.a08_tensor_parallel import cost as reference

REDUCTIONS = ("all_reduce", "reduce_scatter")
NETWORKS = [
    ((6, 8), 4), ((7, 5, 9), 3), ((16, 16, 16, 16, 16), 8), ((3, 1, 4, 1, 5), 11),
    ((4096,) * 9, 2048), ((9216, 4096, 4096, 1000), 256), ((12288, 49152, 12288), 4096),
]  # fmt: skip
SIZES = (1, 2, 3, 5, 8, 12, 64, 1000)

points = points_of("cost")


def drawn(rng, layers=None):
    """A network with widths and a batch that no rank number divides."""
    layers = layers or int(rng.integers(1, 7))
    return tuple(int(d) for d in rng.integers(1, 3000, size=layers + 1)), int(rng.integers(1, 999))


def ask(ranks, function, calls):
    return evaluated(
        ranks, "callers:evaluated", f"cost:{function}", calls, partial(shown, function)
    )


def shown(function, call):
    words = ", ".join(map(repr, call))
    return f"{function}({words})", f'python -c "import cost; print(cost.{function}({words}))"'


def check_bytes(ranks, function, calls, rights=None, beside=""):
    """Every answer is the number of bytes, exactly."""
    if rights is None:
        rights = [getattr(reference, function)(*call) for call in calls]
    for call, value, right in zip(calls, ask(ranks, function, calls), rights, strict=True):
        what, line = shown(function, call)
        if type(value) not in (int, float) or value != right:
            said = one_line(repr(value), 60)
            raise Verdict(f"{what} is {said}; it must be {right}{beside}.", reproduce=line)


def counted(ranks, function, world_size, arguments):
    """Bytes that the network counts of one step of ``traffic.py``."""

    def run(rng):
        target = f"traffic:{function}"
        return ranks.call(target, world_size, [arguments] * world_size, machine=buffered())

    result = ranks.once(f"{function} {world_size} {arguments}", run)
    assert_ran(result, Case(f"traffic:{function}", world_size, arguments[1]))
    return round(sum(sent_as_ring(result)))


def networks(rng, *, layers=None):
    found = [each for each in NETWORKS if layers is None or (len(each[0]) - 1) % layers == 0]
    return [*found, drawn(rng, layers), drawn(rng, layers)]


def on_ranks(found):
    return [(widths, batch, p) for widths, batch in found for p in SIZES]


@points(10, "values")
def test_data_parallelism(ranks, rng):
    check_bytes(ranks, "data_bytes", on_ranks(networks(rng)))


@points(12, "values")
def test_model_parallelism_with_reduce_scatter(ranks, rng):
    calls = [(*each, "reduce_scatter") for each in on_ranks(networks(rng))]
    check_bytes(ranks, "model_bytes", calls)
    check_bytes(ranks, "model_bytes", on_ranks(networks(rng))[:20])


@points(12, "values")
def test_model_parallelism_with_all_reduce(ranks, rng):
    calls = [(*each, "all_reduce") for each in on_ranks(networks(rng))]
    check_bytes(ranks, "model_bytes", calls)


@points(10, "values")
def test_layers_in_pairs(ranks, rng):
    found = [*networks(rng, layers=2), *networks(rng, layers=4)]
    check_bytes(ranks, "paired_bytes", on_ranks(found))


def check_each(checks):
    """Each of several checks, by what it is about, earns its share."""
    check_kinds(checks, str, lambda about: checks[about]())


@points(10, "values")
def test_both_at_once(ranks, rng):
    found = networks(rng)

    def check(grids, *more):
        calls = [
            (widths, batch, *grid, *more)
            for widths, batch in found
            for grid in grids
            if grid[1] <= batch
        ]
        check_bytes(ranks, "hybrid_bytes", calls)

    grids = [(2, 3), (4, 4), (3, 8), (16, 32)]
    check_each({
        "one of the two alone": lambda: check([(1, 1), (1, 6), (6, 1)]),
        "reduce_scatter": lambda: [check(grids), check(grids, "reduce_scatter")],
        "all_reduce": lambda: check(grids, "all_reduce"),
    })  # fmt: skip


@points(4, "values")
def test_bytes_of_an_element(ranks, rng):
    widths, batch = drawn(rng, 4)

    def check(function, *more):
        calls = [(widths, batch, 5, *more, itemsize) for itemsize in (1, 2, 4)]
        check_bytes(ranks, function, calls)

    check_each({
        "data_bytes": lambda: check("data_bytes"),
        "paired_bytes": lambda: check("paired_bytes"),
        "model_bytes": lambda: [check("model_bytes", each) for each in REDUCTIONS],
        "hybrid_bytes": lambda: [check("hybrid_bytes", 2, each) for each in REDUCTIONS],
    })  # fmt: skip


@points(12, "values")
def test_crossover(ranks, rng):
    found = networks(rng)
    check_each({
        "reduce_scatter": lambda: check_crossover(ranks, found, [("reduce_scatter",), ()]),
        "all_reduce": lambda: check_crossover(ranks, found, [("all_reduce",)]),
    })  # fmt: skip


def check_crossover(ranks, found, forms):
    calls = [(widths, *each) for widths, _ in found for each in forms]
    calls += [((4096,) * 1001, *each) for each in forms]
    for call, value in zip(calls, ask(ranks, "crossover_batch", calls), strict=True):
        what, line = shown("crossover_batch", call if len(call[0]) < 20 else ("(4096,) * 1001",))
        right = reference.crossover_batch(*call)
        if type(value) not in (int, float) or not math.isclose(value, right, rel_tol=1e-9):
            raise Verdict(
                f"{what} is {one_line(repr(value), 60)}; it must be {right:.6g}.", reproduce=line
            )


TRACED = [(2, (6, 8, 5), 4), (3, (7, 5, 9, 4, 6), 5), (4, (8, 12, 8), 6), (5, (4, 9, 3, 11, 2), 7)]


def check_traced(ranks, traffic, function, cases):
    """``function`` gives the bytes that the network counts of ``traffic.py``, for each case."""
    for p, arguments, call in cases:
        right = counted(ranks, traffic, p, arguments)
        beside = f", as the network counts of traffic.py on {p} ranks"
        check_bytes(ranks, function, [call], [right], beside)


@points(10, "communication")
def test_traced_bytes_of_data_and_model_parallelism(ranks):
    def model(backward):
        cases = [(p, (w, b, backward), (w, b, p, backward)) for p, w, b in TRACED]
        check_traced(ranks, "model_parallel", "model_bytes", cases)

    data = [(p, (w, b), (w, b, p)) for p, w, b in TRACED]
    check_each({
        "data_bytes": lambda: check_traced(ranks, "data_parallel", "data_bytes", data),
        "reduce_scatter": lambda: model("reduce_scatter"),
        "all_reduce": lambda: model("all_reduce"),
    })  # fmt: skip


@points(8, "communication")
def test_traced_bytes_of_pairs_and_grids(ranks):
    def both(backward):
        w, b = (7, 5, 9, 4), 7
        grids = (4, (2, 2)), (6, (3, 2)), (6, (2, 3))
        cases = [(p, (w, b, *grid, backward), (w, b, *grid, backward)) for p, grid in grids]
        check_traced(ranks, "hybrid", "hybrid_bytes", cases)

    pairs = [(p, (w, b), (w, b, p)) for p, w, b in TRACED]
    check_each({
        "paired_bytes": lambda: check_traced(ranks, "paired", "paired_bytes", pairs),
        "reduce_scatter": lambda: both("reduce_scatter"),
        "all_reduce": lambda: both("all_reduce"),
    })  # fmt: skip


@points(12, "speed")
def test_best_grid(ranks, rng):
    found = [*networks(rng), ((1000, 1000, 1000), 3), ((64, 64), 100_000)]
    check_each({
        "reduce_scatter": lambda: check_grids(ranks, found, [("reduce_scatter",), ()]),
        "all_reduce": lambda: check_grids(ranks, found, [("all_reduce",)]),
    })  # fmt: skip


def check_grids(ranks, found, forms):
    calls = [
        (widths, batch, p, *each)
        for widths, batch in found
        for p in (1, 2, 6, 16, 60, 512, 997)
        for each in forms
    ]
    for call, grid in zip(calls, ask(ranks, "best_grid", calls), strict=True):
        widths, batch, p, *backward = call
        what, line = shown("best_grid", call)
        pair = grid.tolist() if isinstance(grid, np.ndarray) and grid.ndim else grid
        pair = [plain(each) for each in pair] if isinstance(pair, list | tuple) else []
        if len(pair) != 2 or any(type(each) is not int for each in pair):
            raise Verdict(
                f"{what} is {one_line(repr(grid), 60)}; it must be two whole numbers.",
                reproduce=line,
            )
        if pair[0] < 1 or pair[1] < 1 or pair[0] * pair[1] != p or pair[1] > batch:
            raise Verdict(
                f"{what} is {tuple(pair)}; the product must be {p}, and data_size at most {batch}.",
                reproduce=line,
            )
        best = reference.best_grid(*call)
        sent, least = (
            reference.hybrid_bytes(widths, batch, *each, *backward) for each in (pair, best)
        )
        if sent > least:
            raise Verdict(
                f"{what} is {tuple(pair)}, which sends {sent} bytes; {best} sends {least}.",
                reproduce=line,
            )
