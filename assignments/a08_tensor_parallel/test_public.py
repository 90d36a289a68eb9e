"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. The oracle is the whole layer on one rank, in ``examples.py``.
"""

import math
import shutil
import subprocess
import sys
from pathlib import Path

import examples
import numpy as np
import pytest

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_makespan,
    assert_ran,
    assert_requests_complete,
    buffered,
    rendezvous,
)
from ringside.ring_bytes import received_as_ring, sent_as_ring
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


def points(number, kind, module):
    return pytest.mark.points(number, kind=kind, module=module)


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
        self.case = Case(f"trials:{layer}", world_size, n, dtype, shown)

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
                off = np.linalg.norm(a - b) / (np.linalg.norm(b) or 1)
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
    "values", column_layer=10, row_layer=10, mlp_layer=20, attention_layer=20, loss_layer=20
)
def test_2_and_4_ranks(ranks, rng, layer):
    run(ranks, Problem(rng, layer, 2, 3, EVEN[layer]))
    run(ranks, Problem(rng, layer, 4, 5, EVEN[layer]))


@for_layers("values", column_layer=5, row_layer=5, mlp_layer=10, attention_layer=10, loss_layer=10)
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
    arguments = [(layer, *each) for each in problem.arguments()]
    result = ranks.call("trials:looked_at", 3, arguments, machine=buffered())
    assert_ran(result, problem.case)
    problem.check([value[0] for value in result.values])
    if any(changed or shared or fixed for _, changed, shared, fixed in result.values):
        raise problem.case.fail("results must be new arrays, and what is given stays as it was.")


@for_layers("values", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5, loss_layer=5)
def test_two_calls_and_equal_copies(ranks, rng, layer):
    first, second = Problem(rng, layer, 4, 3, EVEN[layer]), Problem(rng, layer, 4, 2, ODD[layer])
    arguments = [(layer, *both) for both in zip(first.arguments(), second.arguments(), strict=True)]
    result = ranks.call("trials:twice", 4, arguments, machine=buffered())
    assert_ran(result, first.case)
    first.check([tuple(early) for _, early, _ in result.values])
    second.check([late for _, _, late in result.values])
    for index in ALIKE[layer]:
        copies = [late[index] for _, _, late in result.values]
        if any(not np.array_equal(copy, copies[0]) for copy in copies):
            raise second.case.fail(f"array {index} of {LAYERS[layer][1]} differs between ranks.")


def check_shard(ranks, target, layer, whole, own, *more):
    """A part for each of three ranks, in memory of its own."""
    result = ranks.call("trials:shards", 1, [(target, [(*whole, *more, 3)])])
    assert_ran(result, Case(target, 1, 0))
    for rank, (parts, shared, gaps) in enumerate(result.values[0]):
        right = own(rank)
        good = len(parts) == len(right) and all(map(np.array_equal, parts, right))
        if not good or shared or gaps:
            raise Verdict(
                f"{target} of rank {rank} of 3 gives shapes {[np.shape(p) for p in parts]}; they "
                f"must be new, contiguous arrays of shapes {[p.shape for p in right]}, and hold "
                f"its part of the whole.",
                reproduce=f"ringside run trials.py:{layer} --ranks 3 -- --n 4",
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
def test_real_mpi(ranks, rng, tmp_path, layer):
    # What fails on simulated ranks isn't tried on real ones, where a hang takes its whole time.
    run(ranks, Problem(rng, layer, 3, 4, EVEN[layer]))
    if shutil.which("mpiexec") is None and not (Path(sys.executable).parent / "mpiexec").exists():
        pytest.skip("there is no mpiexec on this machine; `ringside doctor` says how to get one")
    target = f"trials.py:{layer}"
    words = [sys.executable, "-m", "ringside", "launch", target, "--site", "local"]
    done = subprocess.run(
        [*words, "--out", str(tmp_path), "--", "--n", "4"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise Verdict(f"{target} under mpiexec: {done.stdout[-400:]}")


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


@points(5, "communication", "linear")
def test_two_passes_send_nothing(ranks, rng):
    for layer, function in (("column_layer", "column_forward"), ("row_layer", "row_backward")):
        problem = Problem(rng, layer, 2, 3, (4, 6))
        run(ranks, problem)
        x, W, b, grad_y = zip(*problem.arguments(), strict=True)
        last = b if layer == "column_layer" else grad_y
        result = ranks.call(f"linear:{function}", 2, list(zip(x, W, last, strict=True)))
        assert_ran(result, problem.case)
        if result.collectives or sum(result.sent_messages()):
            raise problem.case.fail(f"{function} has nothing to send.")


@for_layers("schedule", column_layer=2, row_layer=3, mlp_layer=5, attention_layer=5)
def test_each_rank_does_its_own_products(ranks, rng, layer):
    problem = Problem(rng, layer, 2, 3, EVEN[layer])
    done = run(ranks, problem).num_flops()
    whole = run(ranks, Problem(rng, layer, 1, 3, EVEN[layer])).num_flops()[0]
    if max(done) > 0.5 * whole + 1 or min(done) <= 0:
        raise problem.case.fail(
            f"the ranks put {done} floating-point operations into layers.matmul; the whole layer "
            f"takes {whole:g}, half of it for each."
        )


@points(5, "memory", "mlp")
def test_memory_of_the_forward_pass(ranks, rng):
    problem = Problem(rng, "mlp_layer", 8, 64, (8, 1024))
    arguments = [("mlp", (x, own), grad_y) for x, own, grad_y in problem.arguments()]
    result = ranks.call("trials:memory", 8, arguments, machine=buffered())
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
    result = ranks.call("trials:evaluated", 1, [(f"cost:{function}", [call])])
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
    check_number(ranks, "paired_bytes", ((6, 24, 6, 24, 6), 5, 3, 2), 2 * 2 * 5 * (12 + 6) * 2)


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
    call = ((50, 50, 50), 60, 12)
    grid = ask(ranks, "best_grid", call)
    if [int(each) for each in grid] != [4, 3]:
        raise Verdict(f"best_grid{call} is {grid}; it must be (4, 3).")
