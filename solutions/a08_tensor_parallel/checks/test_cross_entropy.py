"""cross_entropy.py: a loss over a cut vocabulary, of three numbers a row."""

from checks.cases_layers import LossLayer
from checks.network import EVERYTHING, SENDS, assert_alike, assert_bytes, makespan_s
from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group

suite = Suite("cross_entropy")


@suite.test("values", "values", LossLayer(2, 4, (12,)), LossLayer(4, 4, (12,)), weight=14)
def test_losses_and_gradients_on_2_4_and_8_ranks(case, run):
    """Plain sizes: p divides samples and words. Only the next test has others."""


@suite.test(
    "values",
    "values",
    group("words that p does not divide", LossLayer(3, 6, (11,))),
    group("samples that p does not divide", LossLayer(4, 5, (12,)), LossLayer(1, 2, (5,))),
    group("ranks without words and no samples", LossLayer(4, 4, (3,)), LossLayer(3, 0, (5,))),
    group("float32", LossLayer(3, 6, (12,), "float32")),
    weight=14,
)
def test_any_vocabulary_samples_and_dtypes(case, run):
    """p need not divide anything, and a rank may have nothing."""


@suite.test(
    "values",
    "values",
    group(
        "exponentials that are infinite or 0",
        LossLayer(3, 6, (12,), logits="rows"),
        LossLayer(2, 4, (6,), logits="low"),  # no finite number can stand for "no maximum yet"
    ),
    group("maxima on one rank only", LossLayer(3, 6, (12,), logits="slopes")),
    weight=15,
)
def test_large_logits(case, run):
    """exp(z) alone may be infinite, or 0 for all of a row."""


@suite.test("values", "values", LossLayer(3, 6, (12,), how="gaps"), weight=3)
def test_inputs_stay_as_they_were(case, run):
    """Arrays with gaps, read-only on even ranks, are enough, and results are the caller's."""


@suite.test(
    "values",
    "values",
    *(LossLayer(3, 6, (9,), how=how) for how in ("twice", "updated", "in order", "last first")),
    weight=4,
)
def test_second_call_is_independent(case, run):
    """Nothing is kept from one call to the next."""


test_real_mpi = suite.real_ranks("reality", LossLayer(3, 6), weight=5)


@suite.test("values", "values", LossLayer(4, 4, (12,)), weight=4)
def test_losses_are_alike(case, run):
    assert_alike(run, case)


@suite.test("point", "communication", LossLayer(4, 8, (1000,)), weight=8)
def test_logits_stay_on_their_ranks(case, run):
    assert_moved(run, case.whole[0].nbytes / 2, case, "logits stay on their ranks")


@suite.test("communication", "communication", LossLayer(4, 24, (400,)), weight=16)
def test_bytes_of_three_numbers_a_row(case, run, ranks):
    assert_bytes(run, case, ranks)


test_given_communicator_is_used = suite.given_communicator(
    "group", LossLayer(3, 6, (12,)), weight=4
)
test_sends_may_wait_and_come_in_any_order = suite.slow_messages(
    "safety",
    LossLayer(2, 4, (12,)),
    LossLayer(4, 4, (12,), how="again"),
    kinds=EVERYTHING,
    sends=SENDS,
    weight=7,
)


@suite.test(
    "speed",
    "speed",
    group("many samples", LossLayer(4, 256, (8,), machine="long wire")),
    group("few samples", LossLayer(8, 8, (16,), machine="textbook")),
    weight=6,
)
def test_time_of_many_and_of_few_samples(case, run):
    """Two words on each rank."""
    machine, nbytes = machine_of(case), 8 * case.n
    gathered_s = (case.p - 1) * (machine.alpha_s + nbytes * machine.beta_s_per_byte)
    beside = f" Gathering {case.p} words of each row takes {gathered_s * 1e6:.1f} µs at least."
    assert_makespan(run, makespan_s(case.steps, case.p, machine), case, beside=beside)
