"""overlap.py: each bucket's all-reduce begins while the next layers compute."""

import functools
import itertools
import math

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_array,
    assert_declared_at_once,
    assert_makespan,
    assert_ran,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a05_ddp.cases import greedy, ring_s, step_call
from solutions.a05_ddp.hidden import oracle, runs
from solutions.a05_ddp.hidden.runs import examples
from solutions.a05_ddp.model import random_parameters

BATCH = 3
WIDTHS = (5, 4, 6, 3)
FOUR_LAYERS = (24,) * 5
SHUFFLED = [[5, 0], [2], [1, 4], [3]]  # the second bucket is full before the first

points = points_of("overlap")


def cut(widths, bucket_bytes, dtype="float64"):
    """Buckets in reverse order under a cap."""
    unit = np.dtype(dtype).itemsize
    pairs = itertools.pairwise(widths)
    sizes = [size for d_in, d_out in pairs for size in (unit * d_in * d_out, unit * d_out)]
    return greedy(sizes, bucket_bytes)


def stepped(
    ranks,
    rng,
    p,
    widths=WIDTHS,
    buckets=None,
    dtype="float64",
    steps=1,
    lr=None,
    work=1.0,
    observed=False,
    values=True,
    before=False,
    **options,
):
    """Train, and compare gradients and parameters with serial training; returns case and result.

    Args:
        observed: the network says where the layers' passes are, and scales their inputs.
        values: whether to compare at all.
        before: make a step of another model first.
    """
    buckets = cut(widths, 200, dtype) if buckets is None else buckets
    case = step_call(p, widths, buckets, dtype)
    case = case.with_options(work=work) if isinstance(work, float) and work != 1.0 else case
    params = random_parameters(widths, rng, dtype)
    per_rank = [
        [
            tuple(rng.standard_normal((BATCH, d)).astype(dtype) for d in (widths[0], widths[-1]))
            for _ in range(steps)
        ]
        for _ in range(p)
    ]
    world_size = options.pop("world_size", p)
    arguments = [(params, own, buckets, lr, work, before) for own in per_rank]
    if observed:
        options["factors"] = Factors.drawn(rng)
    result = ranks.call("callers:overlapped", world_size, arguments, **options)
    assert_ran(result, case)
    if not values:
        return case, result, params, buckets
    seen = case.seen_in(result)
    exact = [np.asarray(each, "float64") for each in params]
    wanted = oracle.train(
        exact, [[tuple(np.asarray(a, "float64") for a in b) for b in own] for own in per_rank], lr,
        result.factors if observed else None,
    )  # fmt: skip
    for rank, value in enumerate(result.values):
        for name in ("gradients", "params"):
            examples.compare(value[name], wanted[name], dtype, seen, f"rank {rank}'s {name[:-1]}")
        what = f"rank {rank}'s gradient with respect to the input, step"
        examples.compare(value["inputs"], wanted["inputs"][rank], dtype, seen, what)
    if observed:
        assert_declared_at_once(result, case)
    check_work(result, params, widths, steps + before, work, case, options.get("members"))
    return case, result, params, buckets


def check_work(result, params, widths, steps, work, case, members=None):
    """Every layer's backward pass was computed once a step, last layer first, and declared."""
    flops = [2 * each for each in oracle.layer_flops(params, BATCH, work)]
    order = list(range(len(widths) - 1))[::-1] * steps
    for place in range(case.world_size):
        ops = result.trace.ops[place if members is None else members[place]]
        phases = examples.backward_phases(ops)
        at_phases = [ops[at + (ops[at].kind == Kind.PASS)] for at, _ in phases]
        declared = [op.detail[0] for op in at_phases]
        right = [number for _, number in phases] == order and all(
            math.isclose(a, flops[number], rel_tol=1e-9)
            for a, number in zip(declared, order, strict=True)
        )
        if not right:
            raise case.fail(
                f"rank {place} called backward of layers {[n for _, n in phases][:12]}; "
                f"it must be {order[:12]}, each once."
            )


@points(12, "values")
def test_gradients_are_the_mean(ranks, rng):
    def means():
        for p in (2, 4, 8, 5, 1):
            for bucket_bytes in (1, 200, 10**6) if p == 2 else (200,):
                stepped(ranks, rng, p, buckets=cut(WIDTHS, bucket_bytes))
        stepped(ranks, rng, 3, (4, 2))

    def means_of_float32():
        stepped(ranks, rng, 3, dtype="float32")

    runs.check_each({"float64": means, "float32": means_of_float32}, float64=3)


@points(8, "values")
def test_three_steps_equal_serial_training(ranks, rng):
    for p in (2, 3):
        stepped(ranks, rng, p, steps=3, lr=0.3, before=p == 2)


@points(8, "values")
def test_any_division_into_buckets(ranks, rng):
    for p in (2, 3):
        stepped(ranks, rng, p, buckets=SHUFFLED)
        stepped(ranks, rng, p, buckets=[[0, 5], [1, 4], [3, 2]])
        order = [int(index) for index in rng.permutation(6)]
        stepped(ranks, rng, p, buckets=[order[:2], order[2:3], order[3:]])


@points(5, "values")
def test_gradients_are_parts_of_the_buffers(ranks, rng):
    for p in (2, 3):
        case, result, _, buckets = stepped(ranks, rng, p)
        for rank, value in enumerate(result.values):
            if value["shared"] is not True:
                raise case.fail(
                    f"rank {rank}: not every gradient of the model shares memory with the "
                    "buffer of its bucket."
                )
            for bucket, flat in zip(buckets, value["flats"], strict=True):
                parts = [value["gradients"][index].reshape(-1) for index in bucket]
                what = f"rank {rank}'s buffer of bucket {bucket}"
                assert_array(flat, np.concatenate(parts), None, case, what)


@points(7, "values")
def test_finish_time(ranks, rng):
    calls = [
        ([3.0, 2.0, 1.0], 3.0, [[2], [1], [0]], [1.0, 1.0, 1.0]),
        ([3.0, 2.0, 1.0], 3.0, [[2], [1], [0]], [5.0, 1.0, 1.0]),
        ([3.0, 2.0, 1.0], 3.0, [[2, 1, 0]], [2.0]),
        ([3.0, 2.0, 1.0], 4.0, [[2], [1], [0]], [0.1, 0.2, 0.3]),
        ([3.0, 2.0, 1.0], 3.0, [[0], [2, 1]], [1.0, 1.0]),  # the first is full last
        ([], 2.0, [], []),
    ]
    for _ in range(20):
        n = int(rng.integers(1, 9))
        ready_s = np.cumsum(rng.random(n))[::-1].tolist()
        order = [int(index) for index in rng.permutation(n)]
        buckets = [each.tolist() for each in np.array_split(order, int(rng.integers(1, n + 1)))]
        bucket_s = (2 * rng.random(len(buckets))).tolist()
        calls.append((ready_s, ready_s[0] + float(rng.random()), buckets, bucket_s))
    target = "overlap:finish_s"
    answers = runs.answers(ranks, target, calls, kept=True)
    for call, (value, error) in zip(calls, answers, strict=True):
        right_s = oracle.finish_s(*call)
        good = isinstance(value, int | float) and math.isclose(value, right_s, rel_tol=1e-9)
        if not good:
            said = error or value
            raise Verdict(
                f"finish_s{call!r} is {said}; it must be {right_s:.6g}.",
                reproduce=runs.typed(target, call),
            )


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    params = random_parameters(WIDTHS, rng)
    p, buckets, lr = 3, cut(WIDTHS, 200), 0.1
    per_rank = [
        [(rng.standard_normal((BATCH, WIDTHS[0])), rng.standard_normal((BATCH, WIDTHS[-1])))]
        for _ in range(p)
    ]
    jobs = [("callers:overlapped", p, [(params, own, buckets, lr) for own in per_rank])]
    case = step_call(p, WIDTHS, buckets)
    (result,) = mpi.call_all(jobs)
    wanted = oracle.train(params, per_rank, lr)
    try:
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.compare(
                value["params"], wanted["params"], "float64", case, f"rank {rank}'s param"
            )
    except Verdict as verdict:
        raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


def bucket_nbytes(params, buckets):
    return [sum(params[index].nbytes for index in bucket) for bucket in buckets]


@points(10, "communication")
def test_one_all_reduce_a_bucket(ranks, rng):
    for p, widths, bucket_bytes, dtype in (
        (2, WIDTHS, 1, "float64"), (3, WIDTHS, 200, "float32"), (5, WIDTHS, 10**6, "float64"),
        (12, WIDTHS, 200, "float64"), (18, WIDTHS, 200, "float64"),
        (3, (200, 300, 40), 200, "float64"),
    ):  # fmt: skip
        buckets = cut(widths, bucket_bytes, dtype)
        case, result, params, _ = stepped(ranks, rng, p, widths, buckets, dtype)
        nbytes = bucket_nbytes(params, buckets)
        ranks.record(case, result, {"all_reduce_bytes": nbytes})
        runs.check_all_reduces(result, nbytes, case)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(stepped, ranks, rng, 3))


@points(6, "schedule", essential=True)
def test_an_all_reduce_is_under_way_in_the_backward_pass(ranks, rng):
    buckets = [[7, 6], [5, 4], [3, 2], [1, 0]]
    case, result, *_ = stepped(ranks, rng, 4, FOUR_LAYERS, buckets, values=False)
    examples.assert_overlaps(result, case)


@points(8, "schedule")
def test_all_reduces_begin_before_the_next_layer(ranks, rng):
    for p, widths in ((2, WIDTHS), (4, FOUR_LAYERS)):
        for bucket_bytes in (1, 200, 5000):
            buckets = cut(widths, bucket_bytes)
            case, result, params, _ = stepped(ranks, rng, p, widths, buckets, observed=True)
            runs.check_all_reduces(result, bucket_nbytes(params, buckets), case)
            examples.assert_launches(result, case, widths, buckets)


@points(9, "schedule")
def test_launches_follow_the_order_of_buckets(ranks, rng):
    for buckets in (SHUFFLED, [[0], [1], [2], [3], [4], [5]], [[3, 5], [4], [0], [1, 2]]):
        case, result, params, _ = stepped(ranks, rng, 2, buckets=buckets, observed=True)
        runs.check_all_reduces(result, bucket_nbytes(params, buckets), case)
        examples.assert_launches(result, case, WIDTHS, buckets)


@points(5, "memory")
def test_gradients_are_not_copied(ranks, rng):
    widths = (60,) * 7
    params = random_parameters(widths, rng)
    buckets = cut(widths, 60_000)
    batch = [(rng.standard_normal((BATCH, 60)), rng.standard_normal((BATCH, 60))) for _ in range(2)]
    case = step_call(2, widths, buckets)
    result = ranks.call("callers:overlap_memory", 2, [(params, own, buckets) for own in batch])
    assert_ran(result, case)
    wanted = oracle.train(params, [[own] for own in batch], None)
    nbytes = sum(param.nbytes for param in params)
    for rank, (gradients, held) in enumerate(result.values):
        examples.compare(gradients, wanted["gradients"], "float64", case, f"rank {rank}'s gradient")
        if held > nbytes // 4:
            raise case.fail(
                f"rank {rank} held {held} bytes beside the model when an all-reduce began; "
                f"the gradients have {nbytes}, and a quarter of that is allowed."
            )


@points(6, "safety")
def test_all_reduces_may_be_slow_and_are_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        case, result, _params, _buckets = stepped(ranks, rng, 4, machine=rendezvous(), seed=seed)
        runs.check_requests(result, case)


def waiting(result):
    """Where rank 0 waits for an all-reduce although layers are left: a sentence, or nothing."""
    ops = result.trace.ops[0]
    waits = [place for place, op in enumerate(ops) if op.kind == Kind.WAIT]
    left = [number for place, number in examples.backward_phases(ops) if waits and place > waits[0]]
    if not left:
        return ""
    return f" Rank 0 waits for an all-reduce before layer {left[0]}'s backward pass."


@points(8, "speed")
def test_time_on_16_ranks(ranks, rng):
    # Communication takes as long as the backward pass of the four layers.
    p, machine, buckets = 16, Machine.load("textbook"), cut(FOUR_LAYERS, 5000)
    params = random_parameters(FOUR_LAYERS, rng)
    work = oracle.work_for(params, BATCH, buckets, p, machine)
    case, result, *_ = stepped(
        ranks, rng, p, FOUR_LAYERS, buckets, work=work, machine=machine, observed=True
    )
    bound_s = oracle.step_s(params, BATCH, work, buckets, p, machine)
    total_s = sum(ring_s(each, p, machine) for each in bucket_nbytes(params, buckets))
    beside = f" All-reduces alone take {total_s * 1e6:.1f} µs, as long as the backward pass."
    beside += waiting(result)
    assert_makespan(result, bound_s, case, half=1.3, beside=beside)
