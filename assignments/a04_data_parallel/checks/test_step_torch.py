"""step_torch.py: the same step with autograd and an optimizer, on torch.distributed."""

import numpy as np

from checks.cases import DEEP, FLAT
from checks.cases_torch import TorchBroadcast, TorchSteps
from checks.network import (
    assert_broadcast_bytes,
    assert_equal_replicas,
    assert_own_samples,
    assert_step_bytes,
    assert_step_time,
)
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("step_torch")


@suite.test("start", "values", TorchBroadcast(3), TorchBroadcast(2, nested=True), weight=4)
def test_parameters_of_place_0_on_every_rank(case, run):
    """Also those that are frozen."""


@suite.test("step", "values", TorchSteps(2), TorchSteps(4), weight=3)
def test_one_step_on_2_4_and_8_ranks(case, run):
    """All ranks have as many samples."""


@suite.test(
    "every_sample", "values", group("unequal numbers of samples", TorchSteps(3, sizes=(1, 9, 4))),
    group("steps in which a rank has no samples", TorchSteps(5, sizes=(5, 0, 2, 8, 1))),
)  # fmt: skip
def test_unequal_numbers_of_samples(case, run):
    """Every sample counts alike."""


@suite.test("copies", "values", TorchSteps(4, steps=3))
def test_copies_stay_equal_over_several_steps(case, run):
    assert_equal_replicas(run, case)


@suite.test(
    "loss", "values", group("equal numbers of samples", TorchSteps(2)),
    group("unequal numbers of samples", TorchSteps(3, sizes=(1, 7, 3))), checked=False,
)  # fmt: skip
def test_loss_is_the_mean_over_all_samples(case, run):
    case.check_losses(run.values)


@suite.test(
    "frozen", "values", group("frozen parameters", TorchSteps(2, frozen=(0,))),
    group("old gradients", TorchSteps(2, stale=True), weight=2),
)  # fmt: skip
def test_frozen_parameters_and_old_gradients(case, run):
    """What doesn't learn stays as it is, and so does its velocity."""
    params, velocity, *_ = case.state
    for rank, value in enumerate(run.values):
        for k in case.frozen:
            kept = np.array_equal(value["params"][k], params[k])
            if not (kept and np.array_equal(value["velocity"][k], velocity[k])):
                raise case.fail(
                    f"rank {rank}'s parameter {k} is frozen, and must stay as it is, bit for bit."
                )


@suite.test(
    "step", "values", group("networks of float32", TorchSteps(2, widths=DEEP, dtype="float32")),
    group("one layer", TorchSteps(2, widths=FLAT)),
    group("a network inside another", TorchSteps(2, steps=2, nested=True), weight=2), weight=6,
)  # fmt: skip
def test_any_network_and_dtype(case, run):
    for rank, value in enumerate(run.values):
        if value["calls"] != case.steps:
            raise case.fail(
                f"{case.steps} steps called optimizer.step() {value['calls']} times on rank "
                f"{rank}; each step must call it once."
            )


test_digits_on_gloo = suite.real_ranks(
    "torchrun", TorchSteps(3, 30, widths=(64, 16, 10), steps=2, digits=True)
)


@suite.test("own_samples", "schedule", TorchSteps(4, 32), checked=False)
def test_each_rank_works_on_its_own_samples(case, run):
    assert_own_samples(run, case)


@suite.test(
    "cost", "communication", group("float64", TorchSteps(4), weight=2),
    group("float32", TorchSteps(3, widths=(20, 30, 10), dtype="float32")), checked=False, weight=6,
)  # fmt: skip
def test_bytes_per_rank(case, run, ranks):
    assert_step_bytes(run, case, ranks)


@suite.test("start", "communication", TorchBroadcast(3), weight=2)
def test_bytes_of_the_broadcast(case, run):
    assert_broadcast_bytes(run, case)


test_given_group_is_used = suite.given_communicator(
    "given", group("train_step", TorchSteps(3, 6), weight=3),
    group("broadcast_parameters", TorchBroadcast(3)), comm="the group", weight=5,
)  # fmt: skip
test_sends_may_wait_and_everything_is_waited_for = suite.slow_messages(
    "waits", group("train_step", TorchSteps(2), TorchSteps(3, 6), TorchSteps(4), weight=5),
    group("broadcast_parameters", TorchBroadcast(3)), weight=13,
)  # fmt: skip
test_nothing_is_left_open = suite.slow_messages(
    "given", TorchSteps(2), kinds=(Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE), weight=2
)


@suite.test(
    "cost", "speed", TorchSteps(8, 256, widths=(64, 128, 10), machine="slow_cores", stretched=512),
    checked=False, weight=4,
)  # fmt: skip
def test_time_on_512_ranks(case, run):
    assert_step_time(run, case)
