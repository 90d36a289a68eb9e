"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. The oracle is the whole layer on one rank, in ``examples.py``.
"""

import math
import sys
from pathlib import Path

import examples
import numpy as np
import pytest
from cases_torch import (
    WHOLE_NAMES,
    assert_near,
    block_call,
    block_params,
    handed_block,
    handed_pair,
    operator_call,
    pair_call,
    pair_params,
)

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_makespan,
    assert_ran,
    assert_real_run,
    assert_requests_complete,
    buffered,
    rendezvous,
)
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.trace import Kind

LAYERS = {
    "column_layer": ("linear", "Y, gradients of X, W and b"),
    "row_layer": ("linear", "Z, gradients of X, W and b"),
    "mlp_layer": ("mlp", "y, gradients of x, gamma, beta, W1, b1, W2 and b2"),
    "attention_layer": ("attention", "y, gradients of x, gamma, beta, W, b, V and c"),
    "loss_layer": ("cross_entropy", "losses and the gradient of the logits"),
}
# Results that all ranks have whole.
ALIKE = {
    "column_layer": [1],
    "row_layer": [0, 3],
    "mlp_layer": [0, 1, 2, 3, 7],
    "attention_layer": [0, 1, 2, 3, 7],
    "loss_layer": [0],
}
# Widths to try a layer with, that 2 and 4 divide, and odd ones.
EVEN = {
    "column_layer": (6, 8), "row_layer": (8, 6), "mlp_layer": (6, 8),
    "attention_layer": (6, 4, 3, 5), "loss_layer": (12,),
}  # fmt: skip
ODD = {
    "column_layer": (5, 7), "row_layer": (7, 5), "mlp_layer": (5, 7),
    "attention_layer": (5, 7, 2, 3), "loss_layer": (11,),
}  # fmt: skip


def for_layers(kind, **worth):
    """The same test for several layers, with what it is worth for each."""
    return pytest.mark.parametrize(
        "layer",
        [
            pytest.param(layer, marks=points(number, kind, LAYERS[layer][0]))
            for layer, number in worth.items()
        ],
    )


class Problem:
    """A layer, drawn whole, and what each rank gets of it and should give."""

    def __init__(self, rng, layer, world_size, n, widths, dtype="float64"):
        self.layer, self.world_size, self.widths = layer, world_size, widths
        self.whole = examples.drawn(layer, n, widths, rng, dtype)
        shown = {"widths": ",".join(str(width) for width in widths)}
        self.case = Case(f"callers:{layer}", world_size, n, dtype, shown)

    def arguments(self):
        """One tuple per rank."""
        everybody = range(self.world_size)
        return [examples.parts(self.layer, self.whole, self.world_size, r) for r in everybody]

    def largest_logit(self):
        """What rounding errors of a loss grow with; 1 for other layers."""
        if self.layer != "loss_layer":
            return 1
        return max(1, np.abs(self.whole[0]).max(initial=0))

    def check(self, values):
        """Every rank's arrays against the whole layer's."""
        limit = {"float64": 1e-12, "float32": 1e-5}[self.case.dtype]
        for rank, got in enumerate(values):
            right = examples.results(self.layer, self.whole, self.world_size, rank)
            if not isinstance(got, tuple) or len(got) != len(right):
                raise self.case.fail(f"there must be {len(right)} arrays: {LAYERS[self.layer][1]}.")
            for number, (a, b) in enumerate(zip(got, right, strict=True)):
                where = f"rank {rank}'s array {number} of {LAYERS[self.layer][1]}"
                if np.shape(a) != b.shape or a.dtype != b.dtype:
                    raise self.case.fail(f"{where} must have shape {b.shape} and dtype {b.dtype}.")
                with np.errstate(all="ignore"):
                    off = np.linalg.norm(a - b) / max(1, np.linalg.norm(b))
                if not off <= limit * self.largest_logit():
                    raise self.case.fail(f"{where} is off by {off:.1g} of its norm.")


def run(ranks, problem, **options):
    """Forward and backward on ranks, with all values checked."""
    options.setdefault("machine", buffered())
    size = options.pop("among", problem.world_size)
    result = ranks.call(problem.case.target, size, problem.arguments(), **options)
    assert_ran(result, problem.case)
    problem.check(result.values)
    return result


# -- values ----------------------------------------------------------------------------------------


@for_layers(
    "values", column_layer=10, row_layer=10, mlp_layer=15, attention_layer=15, loss_layer=15
)
def test_2_and_4_ranks(ranks, rng, layer):
    run(ranks, Problem(rng, layer, 2, 3, EVEN[layer]))
    run(ranks, Problem(rng, layer, 4, 5, EVEN[layer]))


@for_layers("values", column_layer=7, row_layer=8, mlp_layer=10, attention_layer=10, loss_layer=10)
def test_uneven_parts_on_3_ranks_and_1(ranks, rng, layer):
    run(ranks, Problem(rng, layer, 3, 4, ODD[layer]))
    run(ranks, Problem(rng, layer, 1, 2, ODD[layer]))


@for_layers("values", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5, loss_layer=5)
def test_ranks_without_a_part_and_float32(ranks, rng, layer):
    few = {"attention_layer": (4, 2, 3, 2), "loss_layer": (3,)}.get(layer, (3, 3))
    run(ranks, Problem(rng, layer, 4, 3, few))
    run(ranks, Problem(rng, layer, 3, 4, EVEN[layer], "float32"))


@for_layers("values", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5, loss_layer=5)
def test_what_is_given_stays_as_it_was(ranks, rng, layer):
    problem = Problem(rng, layer, 3, 4, EVEN[layer])
    arguments = [(layer, "C", *each) for each in problem.arguments()]
    result = ranks.call("callers:looked_at", 3, arguments, machine=buffered())
    assert_ran(result, problem.case)
    problem.check([value[0] for value in result.values])
    if any(changed or shared or fixed for _, changed, shared, fixed in result.values):
        raise problem.case.fail("results must be new arrays, and what is given stays as it was.")


@for_layers("values", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5, loss_layer=5)
def test_two_calls_and_equal_copies(ranks, rng, layer):
    first, second = (Problem(rng, layer, 4, 3, EVEN[layer]) for _ in range(2))
    arguments = [(layer, *both) for both in zip(first.arguments(), second.arguments(), strict=True)]
    result = ranks.call("callers:twice", 4, arguments, machine=buffered())
    assert_ran(result, first.case)
    first.check([tuple(early) for _, early, _ in result.values])
    second.check([late for _, _, late in result.values])
    for index in ALIKE[layer]:
        copies = [late[index] for _, _, late in result.values]
        if any(not np.array_equal(copy, copies[0]) for copy in copies):
            raise second.case.fail(f"array {index} of {LAYERS[layer][1]} differs between ranks.")


def check_shard(ranks, target, layer, whole, own, *more):
    """A part for each of three ranks, in memory of its own."""
    result = ranks.call("callers:shards", 1, [(target, [(*whole, *more, 3)])])
    assert_ran(result, Case(target, 1, 0))
    for rank, (parts, shared, gaps) in enumerate(result.values[0]):
        right = own(rank)
        good = len(parts) == len(right) and all(map(np.array_equal, parts, right))
        if not good or shared or gaps:
            raise Verdict(
                f"{target} of rank {rank} of 3 gives shapes {[np.shape(p) for p in parts]}; they "
                f"must be new, contiguous arrays of shapes {[p.shape for p in right]}, and hold "
                f"its part of the whole.",
                reproduce=f"ringside run callers.py:{layer} --ranks 3 -- --n 4",
            )


@points(5, "values", "linear")
def test_parts_of_linear_layers(ranks, rng):
    for layer, name in (("column_layer", "column_shard"), ("row_layer", "row_shard")):
        whole = examples.drawn(layer, 2, (5, 7), rng)
        check_shard(
            ranks, f"linear:{name}", layer, whole[1:3],
            lambda rank, whole=whole, layer=layer: examples.parts(layer, whole, 3, rank)[1:3],
        )  # fmt: skip


@points(5, "values", "mlp")
def test_parts_of_the_mlp(ranks, rng):
    whole = examples.drawn("mlp_layer", 2, (5, 7), rng)
    check_shard(
        ranks, "mlp:shard", "mlp_layer", (whole[1],),
        lambda rank: examples.parts("mlp_layer", whole, 3, rank)[1],
    )  # fmt: skip


@points(5, "values", "attention")
def test_parts_of_attention(ranks, rng):
    whole = examples.drawn("attention_layer", 2, (6, 4, 3, 2), rng)
    check_shard(
        ranks, "attention:shard", "attention_layer", (whole[1],),
        lambda rank: examples.parts("attention_layer", whole, 3, rank)[1], 3,
    )  # fmt: skip


@points(10, "values", "cross_entropy")
def test_large_logits(ranks, rng):
    problem = Problem(rng, "loss_layer", 3, 4, (11,))
    logits, *rest = problem.whole
    logits *= 100
    logits[0] += 2000
    logits[1] -= 2000
    problem.whole = (logits, *rest)
    run(ranks, problem)


@for_layers("reality", column_layer=5, mlp_layer=5, attention_layer=5, loss_layer=5)
@pytest.mark.usefixtures("mpiexec")
def test_real_mpi(ranks, rng, tmp_path, layer):
    # What fails on simulated ranks isn't tried on real ones, where a hang takes its whole time.
    run(ranks, Problem(rng, layer, 3, 4, EVEN[layer]))
    target = f"callers.py:{layer}"
    words = [sys.executable, "-m", "ringside", "launch", target, "--site", "local"]
    words += ["--out", str(tmp_path), "--", "--n", "4"]
    assert_real_run(words, Path(__file__).parent, f"{target} under mpiexec", 120.0)


# -- communication and work ------------------------------------------------------------------------


def moved(problem):
    """Bytes that the docstring of the layer's module allows a rank, forward and backward."""
    p, n, unit = problem.world_size, problem.case.n, np.dtype(problem.case.dtype).itemsize
    if problem.layer == "loss_layer":
        return unit * 6 * (p - 1) * math.ceil(n / p) + 64 * (p - 1)
    d = problem.widths[1 if problem.layer == "row_layer" else 0]
    rows = n * (problem.widths[3] if problem.layer == "attention_layer" else 1)
    once = 2 * (p - 1) * max(math.ceil(rows / p) * d, rows * math.ceil(d / p)) * unit
    if "linear" in LAYERS[problem.layer]:
        return once + 64 * (p - 1)
    return 2 * (once + 8 * d * unit + 64 * (p - 1))


@for_layers(
    "communication", column_layer=10, row_layer=10, mlp_layer=20, attention_layer=20, loss_layer=20
)
def test_bytes_per_rank(ranks, rng, layer):
    large = {
        "column_layer": (8, 200), "row_layer": (200, 8), "mlp_layer": (8, 200),
        "attention_layer": (8, 16, 8, 6), "loss_layer": (400,),
    }[layer]  # fmt: skip
    problem = Problem(rng, layer, 4, 24, large)
    result, allowed = run(ranks, problem), moved(problem)
    ranks.record(problem.case, result, {"sent_bytes": [allowed] * 4})
    most = max(*sent_as_ring(result), *received_as_ring(result))
    if most > allowed:
        raise problem.case.fail(
            f"a rank moved {most:.0f} bytes, collectives counted as a ring's; at most {allowed} "
            "are allowed."
        )


@for_layers(
    "communication", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5, loss_layer=5
)
def test_given_communicator_is_used(ranks, rng, layer):
    # Three of five ranks, in another order: COMM_WORLD is somebody else.
    run(ranks, Problem(rng, layer, 3, 4, EVEN[layer]), among=5, members=[4, 1, 2])


WEIGHTS = {  # widths of a layer whose weights are large beside its rows, and all its operations
    "column_layer": ((16, 400), 6 * 4 * 6400),
    "row_layer": ((400, 16), 6 * 4 * 6400),
    "mlp_layer": ((16, 400), 12 * 4 * 6400),
    "attention_layer": ((16, 8, 32, 1), 24 * 4 * 16 * 256),
}


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param(layers, marks=points(5, "communication", module, essential=True), id=module)
        for module, layers in (
            ("linear", ("column_layer", "row_layer")),
            ("mlp", ("mlp_layer",)),
            ("attention", ("attention_layer",)),
        )
    ],
)
def test_the_layer_is_cut(ranks, rng, layers):
    """No rank has all the work, and the weights stay on their ranks."""

    def check(layer):
        widths, work = WEIGHTS[layer]
        problem = Problem(rng, layer, 4, 4, widths)
        result = run(ranks, problem)
        if max(result.num_flops()) > 0.9 * work:
            raise problem.case.fail("a rank multiplies as much as the whole layer takes.")
        weights = work / (6 * 4) * 8  # bytes
        if max(*sent_as_ring(result), *received_as_ring(result)) > weights / 2:
            raise problem.case.fail("weights must stay on their ranks.")

    check_kinds(layers, str, check)


@points(5, "communication", "cross_entropy", essential=True)
def test_logits_stay_on_their_ranks(ranks, rng):
    problem = Problem(rng, "loss_layer", 4, 8, (1000,))
    result = run(ranks, problem)
    if max(*sent_as_ring(result), *received_as_ring(result)) > 8 * 8 * 1000 / 2:
        raise problem.case.fail("logits must stay on their ranks.")


@for_layers("schedule", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5)
def test_each_rank_does_its_own_products(ranks, rng, layer):
    problem = Problem(rng, layer, 2, 3, EVEN[layer])
    done = run(ranks, problem).num_flops()
    if layer == "attention_layer":
        d, heads, k, length = EVEN[layer]
        whole, again = 6 * 3 * heads * (4 * d * k * length + 2 * length * length * k), 4 / 3
    else:
        whole, again = 6 * 3 * 48, 1
        if layer == "mlp_layer":
            whole, again = 2 * whole, 7 / 6
    if max(done) > whole / 2 * again + 1 or min(done) < whole / 2 - 1:
        raise problem.case.fail(
            f"the ranks put {done} floating-point operations into layers.matmul; the whole layer "
            f"takes {whole:g}, half of it for each."
        )


@points(5, "memory", "mlp")
def test_memory_of_the_forward_pass(ranks, rng):
    problem = Problem(rng, "mlp_layer", 8, 64, (8, 1024))
    arguments = [("mlp", (x, own), grad_y) for x, own, grad_y in problem.arguments()]
    result = ranks.call("callers:memory", 8, arguments, machine=buffered())
    assert_ran(result, problem.case)
    problem.check([value for _, value in result.values])
    allowed = 8 * (4 * 64 * 128 + 6 * 64 * 8) + 65536
    most = max(held for held, _ in result.values)
    if most > allowed:
        raise problem.case.fail(f"a rank keeps {most} bytes; {allowed} are allowed.")


# -- safety and speed ------------------------------------------------------------------------------


@for_layers("safety", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5, loss_layer=10)
def test_sends_may_wait_and_come_in_any_order(ranks, rng, layer):
    for world_size in (2, 3, 4):
        problem = Problem(rng, layer, world_size, 4, EVEN[layer])
        result = run(ranks, problem, machine=rendezvous())
        assert_requests_complete(result, problem.case, (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE))
        for seed in LATENCY_SEEDS:
            run(ranks, problem, seed=seed)


@for_layers("speed", mlp_layer=5, attention_layer=10, loss_layer=5)
def test_time_on_8_ranks(ranks, rng, layer):
    machine = Machine("slow cores", alpha_s=1e-6, beta_s_per_byte=1e-9, flop_per_s=1e9)
    wide = {"mlp_layer": (16, 64), "attention_layer": (16, 8, 4, 8), "loss_layer": (64,)}[layer]
    problem = Problem(rng, layer, 8, 64, wide)
    result = run(ranks, problem, machine=machine)
    largest = max(result.num_flops())
    whole = run(ranks, Problem(rng, layer, 1, 64, wide)).num_flops()[0]
    if largest > whole / 8 * (7 / 6) + 1:
        raise problem.case.fail(f"a rank computes {largest:g} of {whole:g} operations.")
    rows = 64 * (8 if layer == "attention_layer" else 1)
    sums, length = (3, 64) if layer == "loss_layer" else (2, rows * 16)
    bound_s = largest / machine.flop_per_s
    bound_s += sums * 14 * (machine.alpha_s + length * machine.beta_s_per_byte)
    assert_makespan(result, bound_s, problem.case)


# -- cost ------------------------------------------------------------------------------------------


def ask(ranks, function, call):
    """The value of a function of cost.py."""
    result = ranks.call("callers:evaluated", 1, [(f"cost:{function}", [call])])
    assert_ran(result, Case(f"cost:{function}", 1, 0))
    value = result.values[0][0]
    return value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value


def check_number(ranks, function, call, right, where=""):
    value = ask(ranks, function, call)
    words = f"{function}({', '.join(map(repr, call))})"
    if not isinstance(value, int | float) or not math.isclose(value, right, rel_tol=1e-12):
        line = f'python -c "from cost import *; print({words})"'
        raise Verdict(f"{words} is {value}; it must be {right}{where}.", reproduce=line)


@points(15, "values", "cost")
def test_data_parallel_bytes(ranks, rng):
    check_number(ranks, "data_bytes", ((10, 20, 5), 7, 4), 2 * 3 * 300 * 8)


@points(15, "values", "cost")
def test_model_parallel_bytes(ranks, rng):
    check_number(ranks, "model_bytes", ((10, 20, 5), 7, 4), 3 * 7 * (25 + 20) * 8)
    check_number(ranks, "model_bytes", ((10, 20, 5), 7, 4, "all_reduce"), 3 * 7 * (25 + 40) * 8)


@points(10, "values", "cost")
def test_bytes_of_pairs(ranks, rng):
    check_number(ranks, "paired_bytes", ((6, 24, 7, 24, 6), 5, 3, 2), 2 * 2 * 5 * (13 + 7) * 2)


@points(10, "values", "cost")
def test_bytes_of_a_grid(ranks, rng):
    call = ((10, 20, 5), 8, 2, 4)
    check_number(ranks, "hybrid_bytes", call, (8 * (25 + 20) + 2 * 3 * 300) * 8)


@points(15, "values", "cost")
def test_crossover_of_two_layers(ranks, rng):
    check_number(ranks, "crossover_batch", ((12, 12, 12), "all_reduce"), 12.0)
    check_number(ranks, "crossover_batch", ((12, 12, 12), "reduce_scatter"), 16.0)


@points(25, "communication", "cost")
def test_bytes_that_the_network_counts(ranks, rng):
    widths, batch = (7, 5, 9), 4
    for name, function, more in (
        ("data_parallel", "data_bytes", ()),
        ("model_parallel", "model_bytes", ("all_reduce",)),
        ("model_parallel", "model_bytes", ("reduce_scatter",)),
        ("paired", "paired_bytes", ()),
    ):
        result = ranks.call(f"traffic:{name}", 3, (widths, batch, *more), machine=buffered())
        assert_ran(result, Case(f"traffic:{name}", 3, batch))
        right = round(sum(sent_as_ring(result)))
        check_number(ranks, function, (widths, batch, 3, *more), right, ", as the network counts")
    result = ranks.call("traffic:hybrid", 6, (widths, batch, 2, 3), machine=buffered())
    assert_ran(result, Case("traffic:hybrid", 6, batch))
    right = round(sum(sent_as_ring(result)))
    check_number(ranks, "hybrid_bytes", (widths, batch, 2, 3), right, ", as the network counts")


@points(10, "speed", "cost")
def test_best_grid_of_12_ranks(ranks, rng):
    # Of the second call, more than 3 groups would leave some without samples.
    for call, right in ((((50, 50, 50), 60, 12), [4, 3]), (((2, 2, 2), 3, 12), [4, 3])):
        grid = ask(ranks, "best_grid", call)
        if [int(each) for each in grid] != right:
            raise Verdict(f"best_grid{call} is {grid}; it must be {tuple(right)}.")


# -- linear_torch and sequence_torch ---------------------------------------------------------------

STARTED = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]


def operate(ranks, rng, target, p, shape, how="plain"):
    """Call an operator; returns call, run, and per rank x and dy."""
    name = target.partition(":")[2]
    rows = {"gather_sequence": shape[0] * p, "reduce_scatter_sequence": shape[0] // p}
    after = (rows.get(name, shape[0]), *shape[1:])
    xs = [rng.standard_normal(shape) for _ in range(p)]
    if name == "copy_to_group":
        xs = xs[:1] * p
    dys = [rng.standard_normal(after) for _ in range(p)]
    call = operator_call(target, p, shape, how=how)
    given = [(target, x, dy, how) for x, dy in zip(xs, dys, strict=True)]
    result = ranks.call("callers_torch:operator", p, given, machine=buffered())
    assert_ran(result, call)
    if how == "sum":
        dys = [np.ones_like(dy) for dy in dys]
    for rank, (*_, second, changed) in enumerate(result.values if how == "shared" else ()):
        assert_near(second, 3 * dys[rank], call, f"rank {rank}'s gradient of another tensor")
        if changed:
            raise call.fail(f"rank {rank} changed x or the gradient that came in.")
    return call, result, xs, dys


def compare(call, result, ys, dxs):
    """Results and gradients of an operator on every rank."""
    for rank, value in enumerate(result.values):
        for what, found, right in zip(("result", "gradient of x"), value, (ys, dxs), strict=False):
            assert_near(found, right[rank], call, f"rank {rank}'s {what}")


def sends_at_most(ranks, result, elements, call, itemsize=8):
    """Bytes of each rank, collectives counted as a ring's, and no groups."""
    p = call.world_size
    most = elements * itemsize + 64 * (p - 1)
    ranks.record(call, result, {"sent_bytes": [most] * p})
    for rank, moved in enumerate(zip(sent_as_ring(result), received_as_ring(result), strict=True)):
        if max(moved) > most + 1e-6:
            raise call.fail(f"rank {rank} moved {max(moved):.0f} bytes; {most} are allowed.")
    if result.comm_calls:
        raise call.fail("no group may be made.")


def trained_pair(ranks, rng, p, rows, widths, steps=1, needs="all", **more):
    """A column and a row on p ranks, compared with the same on one."""
    options = {name: more.pop(name) for name in ("dtype", "biases") if name in more}
    call = pair_call(p, rows, widths, options.get("dtype", "float64"))
    params = pair_params(rng, widths, **options)
    lead = more.pop("lead", (rows,))
    shapes = [(*lead, width) for width in widths[::2]] * steps
    drawn = [rng.standard_normal(shape).astype(call.dtype) for shape in shapes]
    given = list(zip(drawn[::2], drawn[1::2], strict=True))
    serial = ranks.call("callers_torch:serial_pair", 1, [(params, given)])
    zs, dxs, whole = serial.raise_for_error().values[0]
    measure = more.pop("measure", False)
    arguments = [(handed_pair(params, p, rank), given, needs, measure) for rank in range(p)]
    world_size = more.pop("world_size", p)
    more.setdefault("machine", buffered())
    result = ranks.call("callers_torch:pair", world_size, arguments, **more)
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        if not value["registered"]:
            raise call.fail("an optimizer would not find the parameters.")
        for k, right in enumerate(zs):
            assert_near(value["z"][k], right, call, f"rank {rank}'s result")
            if needs in ("all", "x"):
                assert_near(value["dx"][k], dxs[k], call, f"rank {rank}'s gradient of x")
        for k, right in enumerate(whole):
            if right is None or needs in ("none", "x"):
                continue
            cut = right if k == 3 else np.array_split(right, p, axis=k // 2)[rank]
            what = f"rank {rank}'s gradient of {('W1', 'b1', 'W2', 'b2')[k]}"
            assert_near(value["gradients"][k], cut, call, what)
    return call, result


@points(5, "values", "linear_torch")
def test_all_ranks_have_the_same_bits(ranks, rng):
    call, result = trained_pair(ranks, rng, 3, 5, (9, 6, 8))
    for rank, value in enumerate(result.values):
        for name in ("z", "dx"):
            if value[name][0].tobytes() != result.values[0][name][0].tobytes():
                raise call.fail(f"rank {rank}'s {name} differs from rank 0's.")


def ring_elements(p, rows, width):
    """What a rank sends in an all-reduce that is cut by rows or by columns."""
    return 2 * (p - 1) * max(-(-rows // p) * width, -(-width // p) * rows)


@points(10, "values", "linear_torch")
def test_f_and_its_gradient(ranks, rng):
    for how in ("plain", "gaps", "sum"):
        call, result, xs, dys = operate(ranks, rng, "linear_torch:copy_to_group", 3, (5, 2), how)
        compare(call, result, xs, [sum(dys)] * 3)


@points(10, "values", "linear_torch")
def test_g_and_its_gradient(ranks, rng):
    for how in ("plain", "gaps", "sum"):
        target = "linear_torch:reduce_from_group"
        call, result, xs, dys = operate(ranks, rng, target, 3, (5, 2), how)
        compare(call, result, [sum(xs)] * 3, dys)


@points(10, "values", "linear_torch")
def test_layers_equal_serial(ranks, rng):
    for p in (2, 3, 4):
        trained_pair(ranks, rng, p, 5, (6, 12, 3))


@points(10, "values", "linear_torch")
def test_parts_and_shapes_of_any_kind(ranks, rng):
    trained_pair(ranks, rng, 3, 4, (3, 7, 2))
    trained_pair(ranks, rng, 3, 4, (3, 2, 5), biases=False)
    trained_pair(ranks, rng, 2, 4, (3, 4, 5), dtype="float32", lead=(2, 2))
    trained_pair(ranks, rng, 2, 4, (3, 4, 5), needs="x")


@points(5, "values", "linear_torch")
def test_gradients_of_several_steps_add_up(ranks, rng):
    trained_pair(ranks, rng, 2, 3, (4, 6, 2), steps=2)


@points(10, "communication", "linear_torch")
def test_bytes_of_column_and_row(ranks, rng):
    for p in (2, 3):
        call, result = trained_pair(ranks, rng, p, 4, (16, 30, 20))
        wanted = ring_elements(p, 4, 16) + ring_elements(p, 4, 20)
        sends_at_most(ranks, result, wanted, call)
        call, result = trained_pair(ranks, rng, p, 4, (16, 30, 20), needs="none")
        sends_at_most(ranks, result, ring_elements(p, 4, 20), call)


@points(5, "communication", "linear_torch")
def test_data_needs_no_backward_bytes(ranks, rng):
    call, result = trained_pair(ranks, rng, 2, 16, (9, 6, 4), needs="weights")
    sends_at_most(ranks, result, ring_elements(2, 16, 4), call)


@points(5, "communication", "linear_torch", essential=True)
def test_the_layers_are_cut(ranks, rng):
    """No rank has all the work, and the weights stay on their ranks."""
    call, result = trained_pair(ranks, rng, 4, 4, (16, 400, 16))
    weights = 2 * 16 * 400
    if max(result.num_flops()) > 0.9 * 3 * 2 * 4 * weights:
        raise call.fail("a rank multiplies as much as the whole layers take.")
    if max(*sent_as_ring(result), *received_as_ring(result)) > 8 * weights / 2:
        raise call.fail("weights must stay on their ranks.")


@points(5, "communication", "linear_torch")
def test_layers_use_the_given_group(ranks, rng):
    _, result = trained_pair(ranks, rng, 3, 4, (4, 6, 2), world_size=5, members=[3, 1, 4])
    assert all(set(record.members) == {1, 3, 4} for record in result.collectives)


@points(5, "communication", "linear_torch")
def test_layers_on_rows_and_columns_of_a_grid(ranks, rng):
    pairs = [pair_params(rng, widths) for widths in ((3, 4, 5), (5, 6, 2))]
    x, dz = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    call = pair_call(4, 4, (3, 4, 5), about="then 5, 6, 2 on another group")
    given = [
        ([handed_pair(pairs[0], 2, rank % 2), handed_pair(pairs[1], 2, rank // 2)], x, dz)
        for rank in range(4)
    ]
    result = ranks.call("callers_torch:two_groups", 4, given)
    assert_ran(result, call)
    alone = ranks.call("callers_torch:serial_pair", 1, [(pairs[0], [(x, np.zeros((4, 5)))])])
    middle = alone.raise_for_error().values[0][0][0]
    alone = ranks.call("callers_torch:serial_pair", 1, [(pairs[1], [(middle, dz)])])
    (z,), (back,), _ = alone.raise_for_error().values[0]
    alone = ranks.call("callers_torch:serial_pair", 1, [(pairs[0], [(x, back)])])
    (dx,) = alone.raise_for_error().values[0][1]
    for rank, value in enumerate(result.values):
        assert_near(value[0], z, call, f"rank {rank}'s result")
        assert_near(value[1], dx, call, f"rank {rank}'s gradient of x")


@points(5, "memory", "linear_torch")
def test_layers_keep_their_parts_only(ranks, rng):
    call, result = trained_pair(ranks, rng, 4, 3, (40, 64, 40), measure=True)
    for value in result.values:
        for layer, nbytes in zip(("column", "row"), value["held"], strict=True):
            if nbytes > 8 * (16 * 41 + 40) + 4096:
                raise call.fail(f"the {layer}'s layer keeps {nbytes} bytes, not its part only.")


@points(10, "safety", "linear_torch")
def test_nothing_given_is_changed_and_all_is_waited_for(ranks, rng):
    for name in ("copy_to_group", "reduce_from_group"):
        operate(ranks, rng, f"linear_torch:{name}", 2, (4, 3), "shared")
    for seed in LATENCY_SEEDS:
        call, result = trained_pair(ranks, rng, 3, 4, (4, 6, 2), machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, STARTED)
        if any(value["changed"] for value in result.values):
            raise call.fail("x or the gradient of the result was changed.")


def slow_machine():
    return Machine("slow cores", alpha_s=5e-7, beta_s_per_byte=2e-9, flop_per_s=1e9)


def rounds_s(machine, p, nbytes, rounds):
    """So many times round a ring: 2 for an all-reduce, 1 for a gather."""
    return rounds * (p - 1) * (machine.alpha_s + -(-nbytes // p) * machine.beta_s_per_byte)


@points(5, "speed", "linear_torch")
def test_time_of_column_and_row(ranks, rng):
    p, rows, d, h, machine = 4, 32, 32, 128, slow_machine()
    call, result = trained_pair(ranks, rng, p, rows, (d, h, d), machine=machine)
    work_s = 12 * rows * d * h / p / machine.flop_per_s
    assert_makespan(result, work_s + rounds_s(machine, p, 8 * rows * d, 4), call)


def trained_block(ranks, rng, p, positions, widths, rate=0.0, steps=1, names=WHOLE_NAMES, **more):
    """A block on p ranks, compared with the same on one; ``names`` of gradients to compare."""
    dtype, training = more.pop("dtype", "float64"), more.pop("training", True)
    call = block_call(p, positions, widths, rate, dtype)
    params = block_params(rng, widths, dtype)
    whole = [
        (*rng.standard_normal((2, positions, widths[0])).astype(dtype), 100 + step)
        for step in range(steps)
    ]
    serial = ranks.call("callers_torch:serial_block", 1, [(params, rate, whole, training)])
    zs, dxs, gradients = serial.raise_for_error().values[0]
    own = [[] for _ in range(p)]
    for x, dz, seed in whole:
        for mine, parts in zip(own, zip(np.split(x, p), np.split(dz, p), strict=True), strict=True):
            mine.append((*parts, seed))
    backward, measure = more.pop("backward", True), more.pop("measure", False)
    world_size = more.pop("world_size", p)
    given = [
        (handed_block(params, p, rank), rate, own[rank], training, backward, measure)
        for rank in range(p)
    ]
    more.setdefault("machine", buffered())
    result = ranks.call("callers_torch:block", world_size, given, **more)
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        if not value["registered"]:
            raise call.fail("an optimizer would not find the parameters.")
        for k, right in enumerate(zs):
            assert_near(value["z"][k], np.split(right, p)[rank], call, f"rank {rank}'s result")
        if not backward:
            continue
        for k, right in enumerate(dxs):
            what = f"rank {rank}'s gradient of x"
            assert_near(value["dx"][k], np.split(right, p)[rank], call, what)
        for name in names:
            right, axis = gradients[name], {"w1": 0, "b1": 0, "w2": 1}.get(name)
            right = right if axis is None else np.split(right, p, axis=axis)[rank]
            what = f"rank {rank}'s gradient of {name}"
            assert_near(value["gradients"][name], right, call, what)
    return call, result


CUT = ("w1", "b1", "w2")


@points(10, "values", "sequence_torch")
def test_gather_sequence(ranks, rng):
    for how in ("plain", "gaps", "sum"):
        target = "sequence_torch:gather_sequence"
        call, result, xs, dys = operate(ranks, rng, target, 3, (2, 4), how)
        compare(call, result, [np.concatenate(xs)] * 3, np.split(sum(dys), 3))


@points(10, "values", "sequence_torch")
def test_reduce_scatter_sequence(ranks, rng):
    for how in ("plain", "gaps", "sum"):
        target = "sequence_torch:reduce_scatter_sequence"
        call, result, xs, dys = operate(ranks, rng, target, 3, (6, 4), how)
        compare(call, result, np.split(sum(xs), 3), [np.concatenate(dys)] * 3)


@points(10, "values", "sequence_torch")
def test_a_block_equals_serial(ranks, rng):
    for p, dtype in ((2, "float64"), (3, "float32")):
        trained_block(ranks, rng, p, 6, (4, 12), names=CUT, dtype=dtype)


@points(10, "values", "sequence_torch")
def test_dropout_of_each_position(ranks, rng):
    trained_block(ranks, rng, 3, 6, (4, 12), rate=0.3, names=CUT)
    trained_block(ranks, rng, 2, 4, (4, 6), rate=0.3, names=CUT, training=False)


@points(10, "values", "sequence_torch")
def test_replicated_parameters_get_the_whole_gradient(ranks, rng):
    call, result = trained_block(ranks, rng, 3, 6, (4, 12), steps=2)
    for name in ("norm_weight", "norm_bias", "b2"):
        found = [value["gradients"][name].tobytes() for value in result.values]
        if len(set(found)) > 1:
            raise call.fail(f"the gradients of {name} differ from rank to rank.")


@points(5, "communication", "sequence_torch")
def test_bytes_of_gather_and_reduce_scatter(ranks, rng):
    for name, shape in (("gather", (3, 8)), ("reduce_scatter", (9, 8))):
        call, result, *_ = operate(ranks, rng, f"sequence_torch:{name}_sequence", 3, shape)
        sends_at_most(ranks, result, 2 * 2 * 3 * 8, call)


@points(5, "communication", "sequence_torch", essential=True)
def test_the_layers_of_a_block_are_cut(ranks, rng):
    """No rank has all the work, and the weights stay on their ranks."""
    call, result = trained_block(ranks, rng, 4, 4, (16, 400), names=CUT)
    weights = 2 * 16 * 400
    if max(result.num_flops()) > 0.9 * 3 * 2 * 4 * weights:
        raise call.fail("a rank multiplies as much as the whole layers take.")
    if max(*sent_as_ring(result), *received_as_ring(result)) > 8 * weights / 2:
        raise call.fail("weights must stay on their ranks.")


@points(10, "communication", "sequence_torch")
def test_bytes_of_the_block(ranks, rng):
    p, own, d = 3, 4, 20
    call, result = trained_block(ranks, rng, p, p * own, (d, 12), backward=False)
    sends_at_most(ranks, result, 2 * (p - 1) * own * d, call)
    call, result = trained_block(ranks, rng, p, p * own, (d, 12), names=CUT)
    sends_at_most(ranks, result, 5 * (p - 1) * own * d + 3 * ring_elements(p, d, 1), call)


@points(5, "communication", "sequence_torch")
def test_a_block_uses_the_given_group(ranks, rng):
    trained_block(ranks, rng, 2, 4, (4, 6), rate=0.3, world_size=4, members=[3, 1])


@points(10, "memory", "sequence_torch")
def test_norm_and_dropout_keep_own_positions_only(ranks, rng):
    p, positions, d, h = 8, 256, 64, 32
    trained_block(ranks, rng, p, 8, (6, 8), names=CUT)
    call = block_call(p, positions, (d, h), 0.1)
    params, x = block_params(rng, (d, h)), rng.standard_normal((p, positions // p, d))
    given = [(params, 0.1, x[rank], 5) for rank in range(p)]
    result = ranks.call("callers_torch:kept_for_backward", p, given, machine=buffered())
    assert_ran(result, call)
    most = 8 * positions * d + positions // p * 8 * (6 * d + 4 * h) + 16 * 1024
    for rank, told in enumerate(result.memory):
        stays = sum(told["live"][kind] for kind in ("activations", "communication"))
        if stays > most:
            raise call.fail(f"rank {rank} keeps {stays} bytes of activations, not {most}.")


@points(5, "memory", "sequence_torch")
def test_the_block_keeps_its_parts_only(ranks, rng):
    call, result = trained_block(ranks, rng, 4, 4, (24, 80), names=CUT, measure=True)
    for value in result.values:
        if value["held"] > 8 * (20 * 49 + 72) + 4096:
            raise call.fail(f"the block keeps {value['held']} bytes, not its parts only.")


@points(5, "safety", "sequence_torch")
def test_a_block_changes_nothing_and_waits(ranks, rng):
    for name, shape in (("gather", (3, 4)), ("reduce_scatter", (4, 4))):
        operate(ranks, rng, f"sequence_torch:{name}_sequence", 2, shape, "shared")
    for seed in LATENCY_SEEDS:
        call, result = trained_block(ranks, rng, 3, 6, (4, 6), machine=rendezvous(), seed=seed)
        assert_requests_complete(result, call, STARTED)
        if any(value["changed"] for value in result.values):
            raise call.fail("x or the gradient of the result was changed.")


@points(5, "speed", "sequence_torch")
def test_time_of_a_block(ranks, rng):
    p, positions, d, h, machine = 4, 32, 32, 128, slow_machine()
    call, result = trained_block(ranks, rng, p, positions, (d, h), machine=machine)
    work_s = 12 * positions * d * h / p / machine.flop_per_s
    gathers_s = 5 * rounds_s(machine, p, 8 * positions * d, 1)
    assert_makespan(result, work_s + gathers_s + 3 * rounds_s(machine, p, 8 * d, 2), call)
