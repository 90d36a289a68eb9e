"""step.py: one broadcast, then the same step on every rank."""

from checks.cases import DEEP, FLAT, Broadcast, Steps
from checks.network import (
    assert_broadcast_bytes,
    assert_equal_replicas,
    assert_kept,
    assert_own_samples,
    assert_step_bytes,
    assert_step_time,
)
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

EVERYTHING = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)
suite = Suite("step")


@suite.test("start", "values", Broadcast(3), Broadcast(4), weight=4)
def test_parameters_of_rank_0_on_every_rank(case, run):
    assert_kept(run, case)


@suite.test("step", "values", Steps(2), Steps(4), weight=3)
def test_one_step_on_2_4_and_8_ranks(case, run):
    """All ranks have as many samples."""


@suite.test("copies", "values", Steps(4, steps=3))
def test_copies_stay_equal_over_several_steps(case, run):
    assert_equal_replicas(run, case)


@suite.test(
    "every_sample", "values", group("unequal numbers of samples", Steps(3, sizes=(1, 9, 4))),
    group("steps in which a rank has no samples", Steps(5, sizes=(5, 0, 2, 8, 1))),
)  # fmt: skip
def test_unequal_numbers_of_samples(case, run):
    """Every sample counts alike."""


@suite.test(
    "step", "values", group("networks of float64", Steps(2, widths=DEEP), Steps(2, widths=FLAT)),
    group("networks of float32", Steps(2, widths=(7, 11, 6, 4), dtype="float32")), weight=8,
)  # fmt: skip
def test_any_network_and_dtype(case, run):
    """Any number of layers, and any shapes."""


@suite.test(
    "loss", "values", group("equal numbers of samples", Steps(2)),
    group("unequal numbers of samples", Steps(3, sizes=(1, 7, 3))), checked=False,
)  # fmt: skip
def test_loss_is_the_mean_over_all_samples(case, run):
    case.check_losses(run.values)


@suite.test(
    "kept", "values", group("arguments that stay", Steps(2)),
    group("a second call", Steps(2, between_others=True), weight=2), checked=False,
)  # fmt: skip
def test_inputs_stay_and_nothing_is_kept(case, run):
    if case.between_others:
        case.compare(run)
    assert_kept(run, case)


test_digits_under_real_mpi = suite.real_ranks(
    "step", Steps(3, 30, widths=(64, 16, 10), steps=2, digits=True), weight=2
)


@suite.test("own_samples", "schedule", Steps(4, 32), checked=False)
def test_each_rank_works_on_its_own_samples(case, run):
    assert_own_samples(run, case)


@suite.test(
    "cost", "communication", group("float64", Steps(4)),
    group("float32", Steps(3, widths=(20, 30, 10), dtype="float32")), checked=False, weight=6,
)  # fmt: skip
def test_bytes_per_rank(case, run, ranks):
    assert_step_bytes(run, case, ranks)


@suite.test("start", "communication", Broadcast(4), weight=2)
def test_bytes_of_the_broadcast(case, run):
    assert_broadcast_bytes(run, case)


test_given_communicator_is_used = suite.given_communicator(
    "given", group("train_step", Steps(3, 6), weight=3),
    group("broadcast_parameters", Broadcast(3)), weight=5,
)  # fmt: skip
test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "waits", group("train_step", Steps(2), Steps(3, 6), Steps(4), weight=5),
    group("broadcast_parameters", Broadcast(3)), weight=15,
)  # fmt: skip
test_nothing_is_left_open = suite.slow_messages("given", Steps(2), kinds=EVERYTHING, weight=2)


@suite.test(
    "cost", "speed", Steps(8, 256, widths=(64, 128, 10), machine="slow_cores", stretched=512),
    checked=False, weight=4,
)  # fmt: skip
def test_time_on_512_ranks(case, run):
    assert_step_time(run, case)
