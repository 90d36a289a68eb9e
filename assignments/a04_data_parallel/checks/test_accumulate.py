"""accumulate.py: several microbatches, one synchronisation."""

from checks.cases import DEEP, Accumulated
from checks.network import (
    assert_equal_replicas,
    assert_kept,
    assert_one_at_a_time,
    assert_own_samples,
    assert_step_bytes,
    assert_step_time,
)
from ringside.checking.suite import Suite, group
from ringside.trace import Kind

suite = Suite("accumulate")


@suite.test("step", "values", Accumulated(2, 12), Accumulated(4, 16, microbatches=2), weight=5)
def test_one_step_of_equal_microbatches(case, run):
    """All ranks have as many microbatches of as many samples."""


@suite.test(
    "every_sample", "values",
    group("unequal numbers of samples", Accumulated(3, sizes=((1, 2), (4, 5, 1), (2, 2)))),
    group("steps in which a rank has no samples", Accumulated(3, sizes=((), (3, 0, 2), (0, 0)))),
)  # fmt: skip
def test_unequal_microbatches(case, run):
    """Every sample counts alike."""


@suite.test("copies", "values", Accumulated(4, 24, steps=3))
def test_copies_stay_equal_over_several_steps(case, run):
    assert_equal_replicas(run, case)


@suite.test(
    "loss", "values", group("equal numbers of samples", Accumulated(2, 12)),
    group("unequal numbers of samples", Accumulated(3, sizes=((1,), (3, 4), (2, 1)))),
    checked=False,
)  # fmt: skip
def test_loss_is_the_mean_over_all_samples(case, run):
    case.check_losses(run.values)


@suite.test("step", "values", Accumulated(2, 12, widths=DEEP, dtype="float32"), weight=3)
def test_dtype_is_kept(case, run):
    """Results are float32 where parameters are."""


@suite.test(
    "kept", "values", group("arguments that stay", Accumulated(2, 12)),
    group("a second call", Accumulated(2, 12, between_others=True), weight=2), checked=False,
)  # fmt: skip
def test_inputs_stay_and_nothing_is_kept(case, run):
    if case.between_others:
        case.compare(run)
    assert_kept(run, case)


test_real_mpi = suite.real_ranks("step", Accumulated(3, 18, steps=2), weight=2)


@suite.test("own_samples", "schedule", Accumulated(4, 32, microbatches=2), checked=False)
def test_each_rank_works_on_its_own_samples(case, run):
    assert_own_samples(run, case)


@suite.test(
    "one_sync", "communication",
    group("float64", Accumulated(2, widths=(20, 30, 10), microbatches=4), weight=4),
    group("float32", Accumulated(3, widths=(20, 30, 10), dtype="float32")), checked=False,
    weight=14,
)  # fmt: skip
def test_one_synchronisation_a_step(case, run, ranks):
    assert_step_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator("given", Accumulated(3, 18), weight=5)


@suite.test(
    "memory", "memory", Accumulated(2, sizes=((4, 4), (4, 4))), Accumulated(3), checked=False
)
def test_one_microbatch_at_a_time(case, run):
    assert_one_at_a_time(run, case)


test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "waits", Accumulated(2, 12), Accumulated(3, 18), Accumulated(4, 24), weight=11
)
test_nothing_is_left_open = suite.slow_messages(
    "given", Accumulated(2, 12), kinds=(Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE), weight=2
)


@suite.test(
    "one_sync", "speed",
    Accumulated(8, 256, widths=(64, 128, 10), machine="slow_cores", stretched=512), checked=False,
    weight=4,
)  # fmt: skip
def test_time_on_512_ranks(case, run):
    assert_step_time(run, case)
