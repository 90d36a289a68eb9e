"""linear_torch.py: the operators f and g, and the layers that they make."""

import numpy as np

from ringside.checking import assert_makespan, award, buffered, microseconds
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from ringside.errors import TraceError
from ringside.timing.extrapolation import widen
from ringside.timing.replay import replay
from ringside.trace import Kind
from solutions.a08_tensor_parallel.cases_torch import (
    assert_near,
    handed_pair,
    operator_call,
    pair_call,
    pair_params,
)
from solutions.a08_tensor_parallel.hidden import oracle_torch as oracle
from solutions.a08_tensor_parallel.hidden import runs_torch as runs

F, G = "linear_torch:copy_to_group", "linear_torch:reduce_from_group"
SMALL, WIDE, UNEVEN, NARROW = (6, 8, 5), (40, 96, 24), (5, 7, 4), (4, 3, 6)

points = points_of("linear_torch")


# -- the operators ---------------------------------------------------------------------------------


def copied(xs, dys):
    return xs, [sum(dys)] * len(xs)


def summed(xs, dys):
    return [sum(xs)] * len(xs), dys


EXPECTED = {F: copied, G: summed}


def used(ranks, rng, target, p, shape=(5, 4), how="plain", dtype="float64", **where):
    call = operator_call(target, p, shape, dtype, how)
    more = {"how": how, "same": target == F, **where}
    return call, runs.called(ranks, rng, call, EXPECTED[target], shape, **more)


@points(16, "values")
def test_f_and_g_and_their_gradients(ranks, rng):
    forms = [
        (2, (4, 4), "float64"), (3, (2, 3, 4), "float32"), (4, (8,), "float64"),
        (1, (3, 2), "float64"),
    ]  # fmt: skip
    every = [
        (name, target, p, shape, {"dtype": dtype})
        for name, target in (("f", F), ("g", G))
        for p, shape, dtype in forms
    ]
    every += [
        ("tensors with gaps", target, 3, (6, 4), {"how": how})
        for target in (F, G)
        for how in ("gaps", "sum")
    ]
    check_kinds(every, lambda each: each[0], lambda each: used(ranks, rng, *each[1:4], **each[4]))


@points(5, "safety")
def test_incoming_gradients_and_inputs_stay(ranks, rng):
    for target in (F, G):
        for p in (2, 3):
            used(ranks, rng, target, p, (6, 4), how="shared")
        used(ranks, rng, target, 3, (6, 4), how="beside")
    call, result = trained(ranks, rng, 2, 4, SMALL)
    runs.check_kept(result, call)


# -- the layers ------------------------------------------------------------------------------------


def trained(
    ranks, rng, p, rows, widths, *, shape=None, dtype="float64", biases=True, steps=1,
    needs="all", measure=False, how="plain", world_size=None, about="", real=False, **where,
):  # fmt: skip
    """A column and a row on p ranks against one rank; returns call and run."""
    call = pair_call(p, rows, widths, dtype, about)
    params = pair_params(rng, widths, dtype, biases)
    lead = (rows,) if shape is None else shape
    given = [
        tuple(rng.standard_normal((*lead, d)).astype(dtype) for d in widths[::2])
        for _ in range(steps)
    ]
    arguments = [(handed_pair(params, p, rank), given, needs, measure, how) for rank in range(p)]
    if not real:
        where.setdefault("machine", buffered())
    result = ranks.call("callers_torch:pair", world_size or p, arguments, **where)
    call = call.seen_in(result)
    wanted = [oracle.pair(params, x, dz) for x, dz in given]
    whole = [
        None if each[0] is None else sum(each) for each in zip(*(w[2] for w in wanted), strict=True)
    ]
    for rank, value in enumerate(runs.finished(result, call)):
        runs.check_registered(value, rank, call)
        for number, (z, dx, _) in enumerate(wanted):
            assert_near(value["z"][number], z, call, f"rank {rank}'s result")
            if needs in ("all", "x", "biases"):
                assert_near(value["dx"][number], dx, call, f"rank {rank}'s gradient of x")
        parts = [oracle.part(each, p, rank) for each in whole[:2]]
        parts += [oracle.part(whole[2], p, rank, axis=1), whole[3]]
        names = ("column weight", "column bias", "row weight", "row bias")
        for name, found, form, part in zip(
            names, value["gradients"], value["shapes"], parts, strict=True
        ):
            learns = needs in ("all", "weights") or (needs == "biases" and "bias" in name)
            if part is None or form is None:
                if part is not form:
                    raise call.fail(f"rank {rank}'s {name}: a bias of None must stay None.")
            elif form != list(part.shape):
                raise call.fail(
                    f"rank {rank}'s {name} has shape {tuple(form)}; its part has {part.shape}."
                )
            elif learns:
                assert_near(found, part, call, f"rank {rank}'s gradient of the {name}")
    return call, result


def seen(ranks, p, rows, widths, **more):
    """A run that several tests look at."""
    name = f"pair {p} {rows} {widths} {sorted(more.items())}"
    return ranks.once(name, lambda rng: trained(ranks, rng, p, rows, widths, **more))


@points(12, "values")
def test_layers_equal_serial_on_2_to_8_ranks(ranks):
    # Plain sizes: p divides the rows and what is cut. Only the next test has others.
    for p, rows in ((2, 4), (3, 6), (4, 8), (8, 8)):
        seen(ranks, p, rows, WIDE)
    seen(ranks, 1, 3, SMALL)


@points(9, "values")
def test_other_parts_shapes_and_frozen_parameters(ranks):
    def check(each):
        _, p, rows, widths, more = each
        seen(ranks, p, rows, widths, **more)

    parts, shapes, frozen = (
        "parts of unequal length",
        "other shapes and dtypes",
        "frozen parameters",
    )
    every = [
        (parts, 2, 5, UNEVEN, {}),
        (parts, 3, 4, UNEVEN, {}),
        (parts, 4, 6, NARROW, {}),
        (shapes, 2, 4, SMALL, {"shape": (2, 2), "about": "in 2 x 2"}),
        (shapes, 3, 6, WIDE, {"dtype": "float32"}),
        (shapes, 2, 4, SMALL, {"biases": False, "about": "no biases"}),
        (shapes, 3, 9, WIDE, {"shape": (3, 3), "how": "gaps", "about": "in 3 x 3, transposed"}),
        (frozen, 2, 4, SMALL, {"needs": "x", "about": "parameters are frozen"}),
        (frozen, 2, 4, SMALL, {"needs": "biases", "about": "weights are frozen"}),
    ]
    check_kinds(every, lambda each: each[0], check, weights={parts: 2})


@points(4, "values")
def test_gradients_add_up(ranks):
    seen(ranks, 2, 4, SMALL, steps=3, about="3 steps")
    about = "3 forward passes, then their backward passes, the last one first"
    seen(ranks, 2, 4, SMALL, steps=3, how="together", about=about)


@points(4, "values")
def test_replicas_are_equal_bit_for_bit(ranks):
    for p, rows in ((3, 6), (4, 8)):
        call, result = seen(ranks, p, rows, WIDE)
        copies = [(*value["z"], *value["dx"], value["gradients"][3]) for value in result.values]
        for rank, own in enumerate(copies):
            for what, array, first in zip(
                ("result", "gradient of x", "gradient of the row bias"), own, copies[0], strict=True
            ):
                if not np.array_equal(array, first):
                    raise call.fail(
                        f"rank {rank}'s {what} differs from rank 0's by up to "
                        f"{np.abs(array - first).max():.1e}; all ranks must have the same bits, "
                        "or copies drift apart."
                    )


@points(4, "reality")
def test_real_gloo(gloo, rng):
    runs.on_gloo(lambda: trained(gloo, rng, 2, 5, UNEVEN, steps=2, real=True))


# -- communication ---------------------------------------------------------------------------------


@points(8, "communication", essential=True)
def test_the_layers_are_cut(ranks, rng):
    widths = (16, 400, 16)
    call, result = trained(ranks, rng, 4, 4, widths)
    runs.check_cut(result, oracle.pair_flops(4, widths), 8 * 2 * 6400, call)


@points(13, "communication")
def test_bytes_of_a_pair(ranks):
    all_reduces = "an all-reduce of the result forward, one of the gradient of x backward"

    def check(each):
        _, p, rows, widths, more = each
        call, result = seen(ranks, p, rows, widths, **more)
        steps, size = more.get("steps", 1), 4 if "dtype" in more else 8
        sent = oracle.all_reduce_bytes(p, rows, widths[2], size)
        if more.get("needs") is None:
            sent += oracle.all_reduce_bytes(p, rows, widths[0], size)
        what = "one all-reduce of the result" if "needs" in more else all_reduces
        runs.check_bytes(ranks, result, steps * sent, call, what)

    pairs, data = "inputs that need a gradient", "inputs that need none"
    every = [(pairs, p, rows, WIDE, {}) for p, rows in ((2, 4), (3, 6), (4, 8), (8, 8))]
    every += [
        (pairs, 5, 5, WIDE, {}),
        (pairs, 12, 12, WIDE, {}),
        (pairs, 18, 18, WIDE, {}),
        (pairs, 3, 6, (240, 900, 24), {}),
        (pairs, 3, 6, WIDE, {"dtype": "float32"}),
        (pairs, 2, 4, SMALL, {"steps": 3, "about": "3 steps"}),
        (data, 4, 8, WIDE, {"needs": "none", "about": "no gradients"}),
        (data, 2, 12, SMALL, {"needs": "weights", "about": "x needs no gradient"}),
        (data, 4, 20, SMALL, {"needs": "weights", "about": "x needs no gradient"}),
    ]
    check_kinds(every, lambda each: each[0], check, weights={pairs: 2})


@points(6, "communication")
def test_given_groups_are_used(ranks, rng):
    def run(members, world_size):
        where = {} if members is None else {"members": members}
        return trained(ranks, rng, 3, 6, UNEVEN, world_size=world_size, **where)[1]

    checks = {
        "some ranks of a larger world": lambda: runs.check_group(rng, pair_call(3, 6, UNEVEN), run),
        "two groups in one graph": lambda: two_groups(ranks, rng),
    }
    check_kinds(checks, str, lambda kind: checks[kind]())


def two_groups(ranks, rng):
    """A pair on the rows of a grid of ranks, then a pair on its columns."""
    q, rows, widths = 2, 4, ((5, 6, 4), (4, 7, 3))
    call = pair_call(2 * q, rows, widths[0], about="then a pair on another group")
    pairs = [pair_params(rng, each) for each in widths]
    x, dz = rng.standard_normal((rows, 5)), rng.standard_normal((rows, 3))
    # Every group computes the same, so results and gradients are those of one chain.
    middle, *_ = oracle.pair(pairs[0], x, np.zeros((rows, 4)))
    z, d_middle, second = oracle.pair(pairs[1], middle, dz)
    _, dx, first = oracle.pair(pairs[0], x, d_middle)
    arguments = []
    for rank in range(2 * q):
        own = [handed_pair(pairs[0], q, rank % q), handed_pair(pairs[1], 2, rank // q)]
        arguments.append((own, x, dz))
    result = ranks.call("callers_torch:two_groups", 2 * q, arguments, machine=buffered())
    for rank, (found_z, found_dx, gradients) in enumerate(runs.finished(result, call)):
        assert_near(found_z, z, call, f"rank {rank}'s result")
        assert_near(found_dx, dx, call, f"rank {rank}'s gradient of x")
        wanted = []
        for whole, size, place in ((first, q, rank % q), (second, 2, rank // q)):
            wanted += [oracle.part(each, size, place) for each in whole[:2]]
            wanted += [oracle.part(whole[2], size, place, axis=1), whole[3]]
        for number, (found, right) in enumerate(zip(gradients, wanted, strict=True)):
            assert_near(found, right, call, f"rank {rank}'s gradient of parameter {number}")


# -- memory, safety, speed -------------------------------------------------------------------------


@points(6, "memory")
def test_a_layer_keeps_its_parts(ranks):
    for p, rows, widths in ((2, 4, WIDE), (4, 4, (40, 94, 24))):
        call, result = seen(ranks, p, rows, widths, measure=True)
        d_in, d_hidden, d_out = widths
        own = -(-d_hidden // p)
        for rank, value in enumerate(result.values):
            for layer, held, elements in (
                ("the column-parallel layer", value["held"][0], own * (d_in + 1)),
                ("the row-parallel layer", value["held"][1], own * d_out + d_out),
            ):
                runs.check_held(held, 8 * elements, rank, layer, call)


@points(5, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    def run(machine, seed):
        return trained(ranks, rng, 4, 8, SMALL, machine=machine, seed=seed)[1]

    runs.check_any_order(run, pair_call(4, 8, SMALL))


BUSY = (64, 128, 64)


def timed(ranks):
    call, result = seen(ranks, 8, 64, BUSY, machine=runs.slow_cores())
    runs.check_work(result, oracle.pair_flops(64, BUSY), call)
    return call, result


def bound_s(machine, p):
    """Each rank of p has 16 of 16 p hidden columns: the parts stay when ranks are added."""
    work_s = oracle.pair_flops(64, (64, 16, 64)) / machine.flop_per_s
    return work_s + 2 * oracle.ring_s(machine, p, 64 * 64 * 8)


@points(8, "speed")
def test_time_on_8_and_64_ranks(ranks):
    checks = {"8 ranks": on_8_ranks, "64 ranks": on_64_ranks}
    check_kinds(checks, str, lambda kind: checks[kind](ranks))


def on_8_ranks(ranks):
    call, result = timed(ranks)
    assert_makespan(result, bound_s(result.machine, 8), call)


def on_64_ranks(ranks):
    call, result = timed(ranks)
    names = {op.detail[0] for op in result.trace.ops[0] if op.kind == Kind.COLLECTIVE}
    try:
        wide = None if {"reduce_scatter", "allgather"} <= names else widen(result.trace, 64)
    except TraceError:
        wide = None
    if wide is None:  # shards become shorter, or messages name their partners: timed on 8 ranks
        assert_makespan(result, bound_s(result.machine, 8), call)
        return
    bound, taken = bound_s(result.machine, 64), replay(wide, result.machine).makespan_s
    award(
        1.0 if taken <= 1.05 * bound else 0.5 if taken <= 1.5 * bound else 0.0,
        f"{call}, stretched to 64 ranks with as many hidden columns each: takes "
        f"{microseconds(taken)}; at most 1.05 times {microseconds(bound)} are asked for.",
        reproduce=call.reproduce,
    )
