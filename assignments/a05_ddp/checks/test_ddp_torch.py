"""ddp_torch.py: hooks, buckets in reverse order, and the same launches on every rank."""

from checks.cases import (
    assert_overlaps,
    backward_phases,
    collectives,
    finish_s,
    greedy,
    started,
)
from checks.cases_torch import Evaluate, Train
from ringside.checking import assert_makespan, assert_requests_complete, one_line
from ringside.checking.suite import Suite, called, group
from ringside.trace import Kind

suite = Suite("ddp_torch")
LAYER = 336  # bytes of a layer's parameters: with this cap, a layer is a bucket
WAYS = ((((0, 1, 2, 3),), ((3, 1),)), (((1, 3),), ((0, 2, 3),)))  # ranks use other layers
ORDERS = ((((0, 1, 2, 3),),), (((3, 2, 1, 0),),), (((2, 0, 1),),))
SLOW = "name=slow wire,alpha_s=0.0001,beta_s_per_byte=1e-06"


@suite.test(
    "mean", "values", group("two ranks", Train(2), weight=3),
    group("more ranks", Train(3), weight=4),
    group("zeroed gradients", Train(2, cap=1, set_to_none=False), weight=5), weight=12,
)  # fmt: skip
def test_training_equals_serial_training_on_2_to_5_ranks(case, run):
    """Gradients in each step, outputs and parameters."""


@suite.test("replicas", "values", Train(2, 2, buffers=True, frozen=(0,), steps=0))
def test_ranks_begin_with_rank_0s_parameters_and_buffers(case, run):
    """No step is made."""


@suite.test("any_use", "values", Train(2, paths=WAYS), weight=7)
def test_unused_parameters_and_other_orders_on_each_rank(case, run):
    """A parameter that a rank doesn't use counts with zeros."""


@suite.test(
    "any_use", "values", group("frozen parameters", Train(2, frozen=(1,))),
    group("tied parameters", Train(2, tied=((0, 2),))), weight=5,
)  # fmt: skip
def test_frozen_and_tied_parameters(case, run):
    """A frozen one is never reduced, and a tied one is one."""


@suite.test(
    "no_sync", "values", Train(2, microbatches=3), Train(2, microbatches=2, nested=True), weight=2
)
def test_gradients_add_up_in_no_sync(case, run):
    """The backward pass outside averages the sums."""


@suite.test(
    "evaluation", "values", group("parameters alone", Train(3, 1, between=True), weight=5),
    group("with buffers", Train(2, 1, buffers=True, between=True)),
)  # fmt: skip
def test_evaluation_changes_nothing(case, run):
    """A batch in evaluation mode before each step, and another module that was wrapped before."""


@suite.test(
    "buffers", "values", group("in each forward", Train(2, 3, buffers=True, steps=2), weight=5),
    group("with no_sync", Train(2, 3, buffers=True, microbatches=2, interrupted=True), weight=2),
    group("in evaluation mode", Evaluate(2, 3), weight=2),
)  # fmt: skip
def test_buffers_are_rank_0s_in_each_forward(case, run):
    """In training mode and outside of ``no_sync``."""


test_real_gloo = suite.real_ranks("torchrun", Train(2))


def reduced(run, case):
    """Per rank, the bytes of its all-reduces; checks that there are broadcasts beside, no more."""
    if run.comm_calls or sum(run.sent_messages()):
        raise case.fail("only broadcasts and all-reduces on the given group are allowed.")
    found = []
    for rank in range(case.p):
        ops = collectives(run, rank)
        others = {str(op.detail[0]) for op in ops} - {"allreduce", "bcast"}
        if others:
            name = one_line(sorted(others)[0], 40)
            raise case.fail(
                f"the library's {name} was called; only broadcasts and all-reduces are allowed."
            )
        found.append([op.nbytes for op in ops if op.detail[0] == "allreduce"])
    return found


def assert_buckets(run, case):
    """Each rank's all-reduces are, step by step, buckets in reverse order under the cap."""
    sizes, steps = case.sizes[::-1], len(case.path_of(0))
    fewest = len(greedy(case.sizes, case.cap))
    for rank, nbytes in enumerate(reduced(run, case)):
        if len(nbytes) != fewest * steps:
            few = f"; with fewer, some have more than {case.cap} bytes"
            raise case.fail(
                f"rank {rank} took part in {len(nbytes)} all-reduces in {steps} steps; {fewest} a "
                f"step are asked for: one a bucket{few if len(nbytes) < fewest * steps else ''}."
            )
        for step in range(steps):
            left = list(sizes)
            for number, size in enumerate(nbytes[step * fewest : (step + 1) * fewest]):
                taken = 1
                while taken < len(left) and sum(left[:taken]) < size:
                    taken += 1
                if sum(left[:taken]) != size or (taken > 1 and size > case.cap):
                    raise case.fail(
                        f"rank {rank}'s all-reduce number {number} of step {step} has {size} "
                        f"bytes; buckets in reverse order are made of parameters of {sizes} bytes, "
                        f"with at most {case.cap} bytes each."
                    )
                left = left[taken:]


@suite.test(
    "one_each", "communication", group("float64", Train(3, cap=LAYER), weight=2),
    group("float32", Train(2, dtype="float32")), weight=3,
)  # fmt: skip
def test_one_all_reduce_a_bucket(case, ranks):
    run = started(ranks, case)
    ranks.record(case, run, {"all_reduces": [len(case.divided) * len(case.path_of(0))]})
    assert_buckets(run, case)


@suite.test(
    "no_sync", "communication", Train(2, tied=((0, 2),), frozen=(1,), microbatches=3),
    Train(2, 3, buffers=True, microbatches=3),
)  # fmt: skip
def test_nothing_is_sent_in_no_sync(case, ranks):
    run = started(ranks, case)
    assert_buckets(run, case)
    buffers = 2 * case.buffers
    most = len(case.net.shapes) + buffers * (1 + len(case.path_of(0)))
    for rank in range(case.p):
        count = sum(op.detail[0] == "bcast" for op in collectives(run, rank))
        if count > most:
            raise case.fail(
                f"rank {rank} took part in {count} broadcasts; at most {most} are allowed: one for "
                "each parameter and buffer, and one a buffer in each forward outside no_sync."
            )


test_given_group_is_used = suite.given_communicator(
    "one_each", Train(3, 3, buffers=True), comm="the group", weight=4
)


@suite.test("hooks", "schedule", Train(4, steps=1, cap=LAYER, announced=True))
def test_an_all_reduce_begins_in_the_backward_pass(case, ranks):
    assert_overlaps(started(ranks, case), case, waited=False)


@suite.test("hooks", "schedule", Train(4, steps=1, cap=LAYER, announced=True))
def test_an_all_reduce_is_under_way_in_the_backward_pass(case, ranks):
    assert_overlaps(started(ranks, case), case)


@suite.test(
    "soon", "schedule", Train(2, steps=1, cap=LAYER, announced=True),
    Train(3, paths=((((1, 0, 3, 2),),),), cap=LAYER, announced=True), weight=3,
)  # fmt: skip
def test_launches_before_the_last_gradient(case, ranks):
    """Each is launched before the backward pass of the layer after its bucket's last gradient."""
    run = started(ranks, case)
    assert_buckets(run, case)
    ((path,),) = case.path_of(0)
    order = list(path)[::-1]
    for rank, ops in enumerate(run.trace.ops):
        places = {layer: place for place, layer in backward_phases(ops)}
        if [layer for layer, _ in sorted(places.items(), key=lambda each: each[1])] != order:
            raise case.fail(f"rank {rank} did not go backward through layers {order}, each once.")
        launches = [
            place
            for place, op in enumerate(ops)
            if op.kind == Kind.COLLECTIVE and op.detail[0] == "allreduce"
        ]
        latest = 0
        for number, (place, bucket) in enumerate(zip(launches, case.divided, strict=True)):
            layers = [layer for k in bucket for layer in case.net.layer_of[k]]
            latest = max(latest, *map(order.index, layers))
            if latest + 1 < len(order) and place > places[order[latest + 1]]:
                raise case.fail(
                    f"rank {rank} launched bucket {number} after the backward pass of layer "
                    f"{order[latest + 1]}; its last gradient was ready after layer {order[latest]}."
                )


@suite.test(
    "any_use", "safety",
    Train(3, paths=ORDERS, cap=LAYER, machine="rendezvous", latencies=1), weight=10,
)  # fmt: skip
def test_launches_in_one_order_whatever_is_ready_first(case, ranks):
    run = started(ranks, case)
    assert_buckets(run, case)
    assert_requests_complete(run, case, [Kind.COLLECTIVE])


@suite.test("soon", "memory", Train(2, 6, 64, cap=70_000), weight=3)
def test_gradients_exist_once(case, ranks):
    run = started(ranks, case)
    nbytes = sum(case.sizes)
    allowed = nbytes + nbytes // 4 + (1 << 16)
    for rank, value in enumerate(run.values):
        if value["held"] > allowed:
            raise case.fail(
                f"rank {rank} held tensors of {value['held']} bytes beside parameters and batches "
                f"at the end of the backward pass; the gradients have {nbytes} bytes, and "
                f"{allowed} are allowed."
            )


@suite.test(
    "soon", "speed",
    Train(4, steps=1, cap=LAYER, balanced=True, machine=SLOW, announced=True), weight=3,
)  # fmt: skip
def test_time_of_a_step(case, ranks):
    run = started(ranks, case)
    assert_buckets(run, case)
    takes_s = case.takes_s
    none = called(ranks, case.with_(steps=0, announced=False))
    for rank, ops in enumerate(run.trace.ops):
        spent_ps = sum(
            max(0, op.detail[2])
            for op in ops
            if op.kind == Kind.COMPUTE and str(op.detail[3]).startswith("backward layer ")
        )
        if spent_ps < takes_s * case.layers * 1e12 * (1 - 1e-6):
            raise case.fail(
                f"rank {rank}'s backward passes took {spent_ps / 1e12:.6g} s of virtual time; "
                f"those of the network that it was given take {takes_s * case.layers:.6g} s."
            )
    ready_s = [takes_s * (case.layers - number // 2) for number in range(2 * case.layers)]
    bucket_s = [takes_s] * case.layers
    bound_s = finish_s(ready_s, takes_s * case.layers, case.divided, bucket_s)
    assert_makespan(run, none.makespan_s + bound_s, case, half=1.3)
