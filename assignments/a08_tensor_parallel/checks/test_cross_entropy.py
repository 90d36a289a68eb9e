"""cross_entropy.py: a loss over a cut vocabulary, of three numbers a row."""

from checks.cases_layers import LossLayer
from checks.network import EVERYTHING, SENDS, assert_alike, assert_bytes, makespan_s
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import Suite, group

suite = Suite("cross_entropy")


def assert_moved_at_all(run, case):
    """Whatever the values are, ranks told each other something of their logits."""
    if not sum(sent_as_ring(run)):
        raise case.fail("no rank sent anything; a row's loss needs the words of all ranks.")


@suite.test("values", "values", LossLayer(2, 4, (12,)), LossLayer(4, 4, (12,)), weight=3)
def test_losses_and_gradients_on_2_4_and_8_ranks(case, run):
    """Plain sizes: p divides samples and words. Only the next test has others."""
    case.check_exactly(run)


@suite.test(
    "uneven",
    "values",
    group(
        "words and samples that p does not divide",
        LossLayer(3, 6, (11,)), LossLayer(4, 5, (12,)), LossLayer(1, 2, (5,)),
        weight=5,
    ),
    group(
        "ranks without words and no samples",
        LossLayer(4, 4, (3,)), LossLayer(3, 0, (5,)),
        LossLayer(4, 4, (3,), logits="rows"),  # some rows are negative everywhere
        weight=4,
    ),
    group("float32", LossLayer(3, 6, (12,), "float32")),
)  # fmt: skip
def test_any_vocabulary_samples_and_dtypes(case, run):
    """p need not divide anything, and a rank may have nothing."""
    case.check_exactly(run)


@suite.test(
    "large",
    "values",
    group(
        "exponentials that are infinite or 0",
        LossLayer(3, 6, (12,), logits="rows"),
        LossLayer(3, 6, (12,), logits="slopes"),  # maxima on one rank only
        weight=5,
    ),
    # No finite number can stand for "no maximum yet".
    group("logits of -1e10", LossLayer(2, 4, (6,), logits="low")),
)
def test_large_logits(case, run):
    """exp(z) alone may be infinite, or 0 for all of a row."""


@suite.test("inputs", "values", LossLayer(3, 6, (12,), how="gaps"), weight=7)
def test_inputs_stay_as_they_were(case, run):
    """Arrays with gaps, read-only on even ranks, are enough, and results are the caller's."""


@suite.test(
    "calls",
    "values",
    *(LossLayer(3, 6, (9,), how=how) for how in ("twice", "updated", "in order", "last first")),
    weight=15,
)
def test_second_call_is_independent(case, run):
    """Nothing is kept from one call to the next."""
    case.check_exactly(run)


test_real_mpi = suite.real_ranks("values", LossLayer(3, 6))


@suite.test("alike", "values", LossLayer(4, 4, (12,)), checked=False)
def test_losses_are_alike(case, run):
    case.check_form(run)
    assert_moved_at_all(run, case)
    assert_alike(run, case)


@suite.test("kept", "communication", LossLayer(4, 8, (1000,)), checked=False)
def test_logits_stay_on_their_ranks(case, run):
    case.check_form(run)
    assert_moved_at_all(run, case)
    assert_moved(run, case.whole[0].nbytes / 2, case, "logits stay on their ranks")


@suite.test(
    "bytes",
    "communication",
    group("float64", LossLayer(4, 24, (400,)), weight=3),
    group("float32", LossLayer(3, 42, (60,), "float32"), weight=2),
)
def test_bytes_of_three_numbers_a_row(case, run, ranks):
    assert_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator(
    "communicator", LossLayer(3, 6, (12,)), weight=8
)
test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "messages",
    LossLayer(2, 4, (12,)),
    LossLayer(4, 4, (12,), how="again"),
    kinds=EVERYTHING,
    sends=SENDS,
    weight=4,
)


@suite.test(
    "time",
    "speed",
    group("many samples", LossLayer(4, 256, (8,), machine="long wire")),
    group("few samples", LossLayer(8, 8, (16,), machine="textbook")),
)
def test_time_of_many_and_of_few_samples(case, run):
    """Two words on each rank."""
    machine, nbytes = machine_of(case), 8 * case.n
    gathered_s = (case.p - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    beside = f" Gathering {case.p} words of each row takes {gathered_s * 1e6:.1f} µs at least."
    assert_makespan(run, makespan_s(case.steps, case.p, machine), case, beside=beside)
