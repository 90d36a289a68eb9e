"""sequence_torch.py: all-gather and reduce-scatter for f and g, and a block of both."""

import numpy as np

from ringside.checking import assert_makespan, buffered
from ringside.checking.case_kinds import check_kinds
from ringside.checking.points import points_of
from solutions.a08_tensor_parallel.cases_torch import (
    WHOLE_NAMES,
    assert_near,
    block_call,
    block_params,
    handed_block,
    operator_call,
)
from solutions.a08_tensor_parallel.dropout import scaled_mask
from solutions.a08_tensor_parallel.hidden import oracle_torch as oracle
from solutions.a08_tensor_parallel.hidden import runs_torch as runs

GATHER = "sequence_torch:gather_sequence"
SCATTER = "sequence_torch:reduce_scatter_sequence"
CUTS = {"w1": 0, "b1": 0, "w2": 1}
SMALL, WIDE = (6, 24), (20, 48)

points = points_of("sequence_torch")


# -- the operators ---------------------------------------------------------------------------------


def gathered(xs, dys):
    p = len(xs)
    return [np.concatenate(xs)] * p, np.split(sum(dys), p) if dys else []


def scattered(xs, dys):
    p = len(xs)
    return np.split(sum(xs), p), [np.concatenate(dys)] * p if dys else []


EXPECTED = {GATHER: gathered, SCATTER: scattered}


def used(ranks, rng, target, p, own=3, rest=(4,), how="plain", dtype="float64", **where):
    """``own`` positions a rank."""
    shape = (own if target == GATHER else p * own, *rest)
    call = operator_call(target, p, shape, dtype, how)
    return call, runs.called(ranks, rng, call, EXPECTED[target], shape, how=how, **where)


@points(16, "values")
def test_gather_and_reduce_scatter_and_their_gradients(ranks, rng):
    forms = [
        (2, 3, (4,), "float64"), (3, 2, (3, 4), "float32"), (4, 1, (), "float64"),
        (1, 3, (2,), "float64"),
    ]  # fmt: skip
    every = [
        (name, target, *form[:3], {"dtype": form[3]})
        for name, target in (("gather_sequence", GATHER), ("reduce_scatter_sequence", SCATTER))
        for form in forms
    ]
    every += [
        ("tensors with gaps", target, 3, 3, (4,), {"how": how})
        for target in (GATHER, SCATTER)
        for how in ("gaps", "sum")
    ]
    check_kinds(every, lambda each: each[0], lambda each: used(ranks, rng, *each[1:5], **each[5]))


@points(5, "safety")
def test_incoming_gradients_and_inputs_stay(ranks, rng):
    for target in (GATHER, SCATTER):
        used(ranks, rng, target, 2, how="shared")
        used(ranks, rng, target, 3, how="beside")
    call, result = trained(ranks, rng, 2, 8, SMALL)
    runs.check_kept(result, call)


# -- the block -------------------------------------------------------------------------------------


def trained(
    ranks, rng, p, positions, widths, *, rate=0.0, dtype="float64", steps=1, training=True,
    backward=True, measure=False, check=WHOLE_NAMES, world_size=None, about="", before=0,
    how="plain", real=False, **where,
):  # fmt: skip
    """A block on p ranks against one rank; ``check`` names the gradients that are compared."""
    call = block_call(p, positions, widths, rate, dtype, about)
    params = block_params(rng, widths, dtype)
    given = []
    for _ in range(before + steps):
        x, dz = (rng.standard_normal((positions, widths[0])).astype(dtype) for _ in range(2))
        given.append((x, dz, int(rng.integers(2**31))))
    arguments = []
    for rank in range(p):
        own = [(*(oracle.part(each, p, rank) for each in (x, dz)), seed) for x, dz, seed in given]
        parts = own[before:], training, backward, measure, own[:before], how
        arguments.append((handed_block(params, p, rank), rate, *parts))
    if not real:
        where.setdefault("machine", buffered())
    result = ranks.call("callers_torch:block", world_size or p, arguments, **where)
    call = call.seen_in(result)
    wanted = []
    for x, dz, seed in given[before:]:
        mask = scaled_mask(seed, 0, positions, widths[0], rate) if training else 1.0
        wanted.append(oracle.block(params, x, dz, mask))
    for rank, value in enumerate(runs.finished(result, call)):
        runs.check_registered(value, rank, call)
        for number, (z, dx, _) in enumerate(wanted):
            assert_near(value["z"][number], oracle.part(z, p, rank), call, f"rank {rank}'s result")
            if backward:
                what = f"rank {rank}'s gradient of x"
                assert_near(value["dx"][number], oracle.part(dx, p, rank), call, what)
        for name in check if backward else ():
            right = sum(each[2][name] for each in wanted)
            if name in CUTS:
                right = oracle.part(right, p, rank, CUTS[name])
            assert_near(value["gradients"][name], right, call, f"rank {rank}'s gradient of {name}")
    return call, result


def seen(ranks, p, positions, widths, **more):
    """A run that several tests look at."""
    name = f"block {p} {positions} {widths} {sorted(more.items())}"
    return ranks.once(name, lambda rng: trained(ranks, rng, p, positions, widths, **more))


CUT_ONLY = tuple(CUTS)  # gradients that need no finish


@points(9, "values")
def test_block_equals_serial(ranks):
    for p, positions in ((2, 6), (3, 9), (4, 8), (8, 8)):
        seen(ranks, p, positions, WIDE, check=CUT_ONLY)
    seen(ranks, 1, 3, SMALL, check=CUT_ONLY)


@points(7, "values")
def test_dropout_by_position(ranks):
    for p, positions in ((2, 8), (4, 12)):
        seen(ranks, p, positions, SMALL, rate=0.4, check=CUT_ONLY)
    seen(ranks, 2, 6, SMALL, rate=0.4, training=False, check=CUT_ONLY, about="in evaluation mode")


@points(8, "values")
def test_gradients_of_replicated_parameters(ranks):
    for p, positions, more in (
        (2, 6, {}), (3, 9, {}), (4, 8, {"rate": 0.2}), (2, 6, {"dtype": "float32"}),
    ):  # fmt: skip
        call, result = seen(ranks, p, positions, WIDE, about="finished", **more)
        first = result.values[0]["gradients"]
        for rank, value in enumerate(result.values):
            for name in ("norm_weight", "norm_bias", "b2"):
                if not np.array_equal(value["gradients"][name], first[name]):
                    raise call.fail(
                        f"rank {rank}'s gradient of {name} differs from rank 0's; copies must get "
                        "the same gradient, bit for bit, or they drift apart."
                    )


@points(5, "values")
def test_gradients_add_up(ranks):
    seen(ranks, 2, 6, SMALL, steps=3, about="3 steps")
    about = "2 forward passes, then their backward passes, the last one first"
    seen(ranks, 2, 6, SMALL, steps=2, how="together", about=about)
    after = "2 steps, after one that was finished"
    seen(ranks, 3, 6, SMALL, steps=2, before=1, rate=0.2, about=after)


@points(4, "reality")
def test_real_gloo(gloo, rng):
    runs.on_gloo(lambda: trained(gloo, rng, 2, 6, SMALL, rate=0.3, steps=2, real=True))


# -- communication ---------------------------------------------------------------------------------


@points(8, "communication", essential=True)
def test_the_layers_are_cut(ranks, rng):
    d, h = 16, 400
    call, result = trained(ranks, rng, 4, 4, (d, h), check=CUT_ONLY)
    runs.check_cut(result, oracle.pair_flops(4, (d, h, d)), 8 * 2 * d * h, call)


@points(12, "communication")
def test_bytes_of_operators_and_blocks(ranks, rng):
    checks = {"gather_sequence and reduce_scatter_sequence": operators, "blocks": blocks}
    check_kinds(checks, str, lambda kind: checks[kind](ranks, rng))


def operators(ranks, rng):
    for target in (GATHER, SCATTER):
        for p, own in ((2, 8), (3, 9), (4, 8)):
            call, result = used(ranks, rng, target, p, own, (16,))
            sent = 2 * (p - 1) * own * 16 * 8
            what = "all positions once in the forward pass, once in the backward pass"
            runs.check_bytes(ranks, result, sent, call, what)


def blocks(ranks, rng):
    for p, positions, dtype in (
        (2, 16, "float64"), (4, 16, "float64"), (3, 12, "float32"), (24, 48, "float64"),
        (12, 24, "float64"),
    ):  # fmt: skip
        size = np.dtype(dtype).itemsize
        once = (p - 1) * (positions // p) * WIDE[0] * size
        more = {"dtype": dtype, "rate": 0.1, "check": CUT_ONLY}
        call, result = seen(ranks, p, positions, WIDE, backward=False, about="forward", **more)
        what = "a gather and a reduce-scatter"
        runs.check_bytes(ranks, result, 2 * once, call, what)
        call, result = seen(ranks, p, positions, WIDE, **more)
        rest = 3 * oracle.all_reduce_bytes(p, WIDE[0], 1, size)
        what = "two gathers or reduce-scatters forward, three backward, and three vectors"
        runs.check_bytes(ranks, result, 5 * once + rest, call, what)


@points(5, "communication")
def test_given_group_is_used(ranks, rng):
    def run(members, world_size):
        where = {} if members is None else {"members": members}
        more = {"rate": 0.3, "world_size": world_size, **where}
        return trained(ranks, rng, 3, 6, SMALL, **more)[1]

    runs.check_group(rng, block_call(3, 6, SMALL, 0.3), run)


# -- memory, safety, speed -------------------------------------------------------------------------


@points(9, "memory")
def test_activations_of_norm_and_dropout_are_cut(ranks, rng):
    p, positions, (d, h) = 8, 512, (64, 32)
    call, _ = seen(ranks, p, 8, WIDE, check=CUT_ONLY)  # values first
    call = block_call(p, positions, (d, h), 0.1)
    params = block_params(rng, (d, h))
    x = rng.standard_normal((positions, d))
    arguments = [(params, 0.1, oracle.part(x, p, rank), 7) for rank in range(p)]
    result = ranks.call("callers_torch:kept_for_backward", p, arguments, machine=buffered())
    mask = scaled_mask(7, 0, positions, d, 0.1)
    z, *_ = oracle.block(params, x, np.zeros_like(x), mask)
    own = positions // p
    allowed = 8 * (positions * d + own * (6 * d + 4 * h)) + (1 << 14)
    for rank, value in enumerate(runs.finished(result, call)):
        assert_near(value, oracle.part(z, p, rank), call, f"rank {rank}'s result")
        live = result.memory[rank]["live"]
        kept = live["activations"] + live["communication"]
        if kept > allowed:
            raise call.fail(
                f"rank {rank} keeps {kept} bytes of activations for the backward pass; at most "
                f"{allowed} are allowed: {positions} positions as w1's input, {own} of all else."
            )


@points(3, "memory")
def test_a_block_keeps_its_parts(ranks):
    for p, positions in ((2, 6), (4, 8)):
        call, result = seen(ranks, p, positions, WIDE, check=CUT_ONLY, measure=True)
        d, h = WIDE
        for rank, value in enumerate(result.values):
            elements = (h // p) * (2 * d + 1) + 3 * d
            runs.check_held(value["held"], 8 * elements, rank, "the block", call)


@points(4, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    def run(machine, seed):
        return trained(ranks, rng, 4, 8, SMALL, machine=machine, seed=seed)[1]

    runs.check_any_order(run, block_call(4, 8, SMALL))


@points(5, "speed")
def test_time_on_8_ranks(ranks):
    p, positions, (d, h) = 8, 64, (64, 256)
    machine = runs.slow_cores(5e-6)
    call, result = seen(ranks, p, positions, (d, h), machine=machine, about="finished")
    flops = oracle.pair_flops(positions, (d, h, d))
    runs.check_work(result, flops, call)
    gather_s = oracle.ring_s(machine, p, positions * d * 8, rounds=1)
    bound_s = flops / p / machine.flop_per_s + 5 * gather_s + 3 * oracle.ring_s(machine, p, d * 8)
    assert_makespan(result, bound_s, call)
