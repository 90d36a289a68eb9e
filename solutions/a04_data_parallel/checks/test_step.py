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


@suite.test("values", "values", Broadcast(3), Broadcast(4), weight=4)
def test_parameters_of_rank_0_on_every_rank(case, run):
    assert_kept(run, case)


@suite.test("values", "values", Steps(2), Steps(4), weight=6)
def test_one_step_on_2_4_and_8_ranks(case, run):
    """All ranks have as many samples."""


@suite.test(
    "values", "values", group("unequal numbers of samples", Steps(3, sizes=(1, 9, 4))),
    group("steps in which a rank has no samples", Steps(5, sizes=(5, 0, 2, 8, 1))), weight=16,
)  # fmt: skip
def test_unequal_numbers_of_samples(case, run):
    """Every sample counts alike."""


@suite.test("values", "values", Steps(4, steps=3), weight=7)
def test_copies_stay_equal_over_several_steps(case, run):
    assert_equal_replicas(run, case)


@suite.test(
    "values", "values", group("networks of float64", Steps(2, widths=DEEP), Steps(2, widths=FLAT)),
    group("networks of float32", Steps(2, widths=(7, 11, 6, 4), dtype="float32")), weight=4,
)  # fmt: skip
def test_any_network_and_dtype(case, run):
    """Any number of layers, and any shapes."""


@suite.test(
    "values", "values", group("equal numbers of samples", Steps(2)),
    group("unequal numbers of samples", Steps(3, sizes=(1, 7, 3))), weight=4,
)  # fmt: skip
def test_loss_is_the_mean_over_all_samples(case, run):
    case.check_losses(run.values)


@suite.test(
    "values", "values", group("arguments that stay", Steps(2)),
    group("a second call", Steps(2, between_others=True)), weight=6,
)  # fmt: skip
def test_inputs_stay_and_nothing_is_kept(case, run):
    assert_kept(run, case)


test_digits_under_real_mpi = suite.real_ranks(
    "reality", Steps(3, 30, widths=(64, 16, 10), steps=2, digits=True), weight=4
)


@suite.test("point", "schedule", Steps(4, 32), checked=False, weight=12)
def test_each_rank_works_on_its_own_samples(case, run):
    assert_own_samples(run, case)


@suite.test(
    "communication",
    "communication",
    Steps(4),
    Steps(3, widths=(20, 30, 10), dtype="float32"),
    weight=11,
)
def test_bytes_per_rank(case, run, ranks):
    assert_step_bytes(run, case, ranks)


@suite.test("communication", "communication", Broadcast(4), weight=3)
def test_bytes_of_the_broadcast(case, run):
    assert_broadcast_bytes(run, case)


test_given_communicator_is_used = suite.given_communicator(
    "group",
    group("train_step", Steps(3), weight=3),
    group("broadcast_parameters", Broadcast(3)),
    weight=4,
)
test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "safety", group("train_step", Steps(2), Steps(3), Steps(4), weight=3),
    group("broadcast_parameters", Broadcast(3)), kinds=EVERYTHING, weight=10,
)  # fmt: skip


@suite.test(
    "speed",
    "speed",
    Steps(8, 256, widths=(64, 128, 10), machine="slow_cores", stretched=512),
    weight=9,
)
def test_time_on_512_ranks(case, run):
    assert_step_time(run, case)
