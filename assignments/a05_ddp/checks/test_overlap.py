"""overlap.py: each bucket's all-reduce begins while the next layers compute."""

import numpy as np

from checks.cases import (
    FinishS,
    Parts,
    Step,
    assert_all_reduces,
    assert_overlaps,
    backward_phases,
    collectives,
    ring_s,
    started,
)
from ringside.checking import assert_makespan
from ringside.checking.cases import assert_like, machine_of
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("overlap")
FOUR = (16,) * 5  # four layers
BY_LAYERS = ((7, 6), (5, 4), (3, 2), (1, 0))
SHUFFLED = ((5, 0), (2,), (1, 4), (3,))  # the second bucket is full before the first


@suite.test(
    "mean", "values", group("two ranks", Step(2), Step(2, cap=10**6)),
    group("more ranks", Step(3)), group("float32", Step(2, dtype="float32")), weight=8,
)  # fmt: skip
def test_gradients_are_the_mean(case, run):
    """As serial training on all ranks' batches makes them."""


@suite.test("mean", "values", Step(2), weight=6)
def test_gradient_of_the_input(case, run):
    case.check_inputs(run)


@suite.test(
    "steps", "values", group("one model", Step(3, steps=3, lr=0.3), weight=3),
    group("after a step of another model", Step(3, steps=3, lr=0.3, before=True)), weight=4,
)  # fmt: skip
def test_three_steps_equal_serial_training(case, run):
    """Parameters and gradients."""


@suite.test("any_buckets", "values", Step(2, buckets=SHUFFLED))
def test_any_division_into_buckets(case, run):
    """Indices in any order."""


@suite.test(
    "parts", "values", group("float64", Parts(2)), group("float32", Parts(2, dtype="float32")),
    weight=10,
)  # fmt: skip
def test_gradients_are_parts_of_the_buffers(case, run):
    for rank, value in enumerate(run.values):
        if value["shared"] is not True:
            raise case.fail(
                f"rank {rank}: not every gradient of the model shares memory with the buffer of "
                "its bucket."
            )
        for bucket, flat in zip(case.divided, value["flats"], strict=True):
            parts = [value["gradients"][index].reshape(-1) for index in bucket]
            what = f"rank {rank}'s buffer of bucket {bucket}"
            assert_like(flat, np.concatenate(parts), case, what, tolerance=0)


@suite.test(
    "finish_s", "values",
    FinishS((3.0, 2.0, 1.0), 3.0, ((2,), (1,), (0,)), (1.0, 1.0, 1.0)),
    FinishS((3.0, 2.0, 1.0), 3.0, ((2,), (1,), (0,)), (5.0, 1.0, 1.0)),
    FinishS((3.0, 2.0, 1.0), 5.0, ((2, 1, 0),), (1.0,)),
)  # fmt: skip
def test_finish_time(case, run):
    """The closed form."""


test_real_mpi = suite.real_ranks("steps", Step(3, steps=2, lr=0.1))


@suite.test(
    "one_each", "communication", group("float64", Step(3), Step(3, cap=10**6), weight=2),
    group("float32", Step(3, dtype="float32")), weight=5,
)  # fmt: skip
def test_one_all_reduce_a_bucket(case, ranks):
    run = started(ranks, case)
    ranks.record(case, run, {"all_reduce_bytes": case.bucket_nbytes})
    assert_all_reduces(run, case, case.bucket_nbytes)
    for rank in range(case.p):
        for number, op in enumerate(collectives(run, rank)):
            if op.site >= 0 and run.trace.sites[op.site].call.startswith("Allreduce("):
                raise case.fail(
                    f"rank {rank} waited in Allreduce for bucket {number}; every bucket's "
                    "all-reduce begins with Iallreduce."
                )


test_given_communicator_is_used = suite.given_communicator("one_each", Step(3), weight=5)


@suite.test("overlap", "schedule", Step(4, FOUR, BY_LAYERS, announced=True))
def test_an_all_reduce_is_under_way_in_the_backward_pass(case, ranks):
    assert_overlaps(started(ranks, case), case)


def assert_launches(run, case):
    """Each all-reduce begins before the backward pass that follows its last gradient."""
    assert_all_reduces(run, case, case.bucket_nbytes)
    last_layers = []  # per bucket, the lowest layer among its parameters and those before it
    lowest = len(case.widths)
    for bucket in case.divided:
        lowest = min(lowest, min(index // 2 for index in bucket))
        last_layers.append(lowest)
    for rank, ops in enumerate(run.trace.ops):
        phases = {number: place for place, number in backward_phases(ops)}
        places = [place for place, op in enumerate(ops) if op.kind == Kind.COLLECTIVE]
        for number, (place, layer) in enumerate(zip(places, last_layers, strict=True)):
            if layer > 0 and place > phases[layer - 1]:
                raise case.fail(
                    f"rank {rank} began the all-reduce of bucket {number} after the backward pass "
                    f"of layer {layer - 1}; its last gradient was ready after layer {layer}."
                )
            if place < phases[layer]:
                raise case.fail(
                    f"rank {rank} began the all-reduce of bucket {number} before layer {layer}'s "
                    "gradients were there."
                )


@suite.test("launches", "schedule", Step(2, cap=1, announced=True), Step(2, announced=True))
def test_all_reduces_begin_before_the_next_layer(case, ranks):
    assert_launches(started(ranks, case), case)


@suite.test("any_buckets", "schedule", Step(2, buckets=((1, 4), (5, 0), (3, 2)), announced=True))
def test_launches_follow_the_order_of_buckets(case, ranks):
    assert_launches(started(ranks, case), case)


@suite.test("parts", "memory", Step(2, (60,) * 5, cap=60_000, watched=True), weight=3)
def test_gradients_are_not_copied(case, run):
    nbytes = sum(param.nbytes for param in case.params)
    for rank, value in enumerate(run.values):
        if value["held"] > nbytes // 4:
            raise case.fail(
                f"rank {rank} held {value['held']} bytes beside the model when an all-reduce "
                f"began; the gradients have {nbytes}, and a quarter of that is allowed."
            )


test_all_reduces_may_be_slow_and_are_waited_for = suite.slow_messages(
    "one_each", Step(2), kinds=[Kind.COLLECTIVE], weight=2
)


def waiting(run):
    """Where rank 0 waits for an all-reduce although layers are left: a sentence, or nothing."""
    ops = run.trace.ops[0]
    waits = [place for place, op in enumerate(ops) if op.kind == Kind.WAIT]
    left = [number for place, number in backward_phases(ops) if waits and place > waits[0]]
    if not left:
        return ""
    return f" Rank 0 waits for an all-reduce before layer {left[0]}'s backward pass."


@suite.test("time", "speed", Step(8, FOUR, BY_LAYERS, balanced=True, announced=True))
def test_time_of_a_step(case, ranks):
    run = started(ranks, case)
    machine = machine_of(case)
    total_s = sum(ring_s(each, case.p, machine) for each in case.bucket_nbytes)
    beside = f" All-reduces alone take {total_s * 1e6:.1f} µs, as long as the backward pass."
    assert_makespan(run, case.step_s(), case, half=1.3, beside=beside + waiting(run))
