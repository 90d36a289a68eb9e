"""stash_torch.py: a pipeline that never drains, and versions of parameters that are kept."""

from checks.cases import (
    assert_losses,
    assert_neighbours,
    assert_order,
    assert_passed_on,
    assert_sent,
    assert_work,
    pipeline_s,
)
from checks.cases_torch import TrainTorch
from ringside.checking import assert_makespan
from ringside.checking.suite import Suite, group

suite = Suite("stash_torch")
ONE, TWO = (1,), (2,)  # samples of a minibatch
FEW, ALONE = "fewer minibatches than stages", "one stage"
ANY, MOMENTUM = "minibatches of any length", "momentum"
WORLD, PART = "the world", "a part of the world"
FREE, SLOW = "free messages", "a slow wire"
TENS = {"costs": (1e-2, 2e-2), "announced": True}
THIN = {"ends": (30, 30), "hidden": 2, "machine": "slow wire"}


@suite.test(
    "stashed", "values", TrainTorch(2, announced=True), TrainTorch(3, TWO * 6, announced=True)
)  # fmt: skip
def test_delayed_recursion_on_2_to_5_stages(case, run):
    """Where passes are announced, a rank that computes another stage's has other values."""


@suite.test(
    "sizes", "values", group(FEW, TrainTorch(3, TWO * 2, announced=True), TrainTorch(4, TWO)),
    group(ALONE, TrainTorch(1, TWO * 3, announced=True)), weight=6,
)  # fmt: skip
def test_fewer_minibatches_than_stages_and_one_stage(case, run):
    """The pipeline is never full; nobody is there to talk to."""


@suite.test("vertical_sync", "values", TrainTorch(3, TWO * 6, vertical_sync=True, announced=True))
def test_vertical_sync(case, run):
    """All stages use the version of stage 0."""


@suite.test(
    "optimizer", "values", group(ANY, TrainTorch(2, (1, 3, 2, 4), announced=True)),
    group(MOMENTUM, TrainTorch(2, TWO * 5, optimizer="momentum", announced=True), weight=2),
    weight=1.2,
)  # fmt: skip
def test_minibatches_of_any_length_and_momentum(case, run):
    """The optimizer makes the step."""


@suite.test("sizes", "values", TrainTorch(2, (2, 1, 3), calls=2, announced=True), weight=5)
def test_losses_of_the_last_stage(case, run):
    for number, right in enumerate(case.serial[1]):
        assert_losses([value["losses"][number] for value in run.values], right, case)


@suite.test(
    "optimizer", "values", TrainTorch(2, (2, 1, 3), optimizer="momentum", calls=2, announced=True),
)  # fmt: skip
def test_second_call_goes_on(case, run):
    """Inputs and parameter objects are those of before, and every ``grad`` is None."""
    for stage, value in enumerate(run.values):
        if value["kept"] is not True:
            raise case.fail(
                f"stage {stage} changed its inputs or targets, or its module holds other parameter "
                "objects than before; the optimizer holds the old ones."
            )
        if value["cleared"] is not True:
            raise case.fail(f"after the call a parameter of stage {stage} has a grad, not None.")


test_real_gloo = suite.real_ranks("under_way", TrainTorch(3, calls=2))


@suite.test("pipeline", "communication", TrainTorch(3, TWO * 6), checked=False)
def test_stages_compute_their_pieces_and_pass_tensors_on(case, run):
    assert_passed_on(run, case)


@suite.test(
    "messages", "communication", TrainTorch(3, TWO * 5, announced=True), checked=False
)  # fmt: skip
def test_two_messages_for_each_minibatch_and_boundary(case, run, ranks):
    messages, nbytes = zip(*map(case.allowed, range(case.p)), strict=True)
    ranks.record(case, run, {"messages": list(messages), "bytes": list(nbytes)})
    assert_sent(run, case)


@suite.test(
    "group", "communication", group(WORLD, TrainTorch(3, TWO * 5, announced=True)),
    group(PART, TrainTorch(3, TWO * 5).in_part(), weight=2),
)  # fmt: skip
def test_no_collective_in_the_given_group(case, run):
    assert_neighbours(run, case)


@suite.test("order", "schedule", TrainTorch(3, TWO * 5, announced=True), checked=False)
def test_passes_are_in_the_order_of_1f1b(case, run):
    assert_order(run, case)


test_every_send_may_wait_for_its_receive = suite.slow_messages(
    "under_way", TrainTorch(3, announced=True)
)


@suite.test("memory", "memory", TrainTorch(2, ONE * 10, ends=(60, 60), hidden=60, watched=True))
def test_few_versions_are_kept(case, run):
    for stage, memory in enumerate(run.memory):
        allowed, one, copies = case.held_bytes(stage)
        if memory["peak"] > allowed:
            raise case.fail(
                f"stage {stage} held {memory['peak']} bytes at one time; with parameters of {one} "
                f"bytes {allowed} are allowed: parameters, gradients, {copies} copies, one more "
                "of them, and half of them for activations."
            )


@suite.test(
    "under_way", "speed", group(FREE, TrainTorch(3, ONE * 5, machine="free", **TENS)),
    group(SLOW, TrainTorch(3, ONE * 5, **TENS, **THIN), weight=2), checked=False,
)  # fmt: skip
def test_time_with_free_messages_and_on_a_slow_wire(case, run):
    assert_work(run, case)
    assert_makespan(run, pipeline_s(case), case)
