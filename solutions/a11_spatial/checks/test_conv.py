"""conv.py: the values of one rank with the whole image, and messages beside the computing."""

from checks.cases import Both, Forward, assert_interior_first, assert_kept
from ringside.checking import assert_makespan, assert_moved, assert_pairs
from ringside.checking.suite import Suite, group, right_run
from ringside.trace import Kind

FORWARD, BACKWARD = "the forward pass", "the backward pass"
SMALL, LARGE = "filters of one element", "larger filters"
DIFFER, SINGLE = "heights that differ", "float32"
OF_INPUTS, OF_FILTERS = ("dx",), ("dw", "db")
# One pass of ten rows takes 1 ms there, or one of 24 rows.
ALONG = "textbook,name=slow wire,flop_per_s=4.32e6"
TALL = "textbook,name=slow wire,flop_per_s=1.0368e7"
NARROW = (1, 2, 2, 6)
suite = Suite("conv")


@suite.test("values", "values", Forward(2), Forward(4), weight=1)
def test_forward_on_2_to_5_ranks(case, run):
    """y alone."""


@suite.test("images", "values", Both(2, parts=OF_INPUTS), Both(4, parts=OF_INPUTS), weight=1)
def test_gradient_of_the_images(case, run):
    """dx alone."""


@suite.test("gradients", "values", Both(2, parts=OF_FILTERS), Both(3, parts=OF_FILTERS), weight=1)
def test_gradients_of_filters_and_biases(case, run):
    """dw and db alone."""


@suite.test(
    "filters",
    "values",
    group(SMALL, Both(2, (3,), 1)),
    group(LARGE, Both(3, (5,), 5), weight=3),
    checked=False,
    weight=1,
)
def test_kernels_of_1_5_and_7(case, run):
    case.check_each(run)
    if case.k == 1:
        assert_pairs(run, case.bytes_to(case.halo_bytes()), case)


@suite.test(
    "parts", "values", group(DIFFER, Both(3, (2, 5, 3)), Both(3, (1, 3, 1))),
    group(SINGLE, Both(2, (3,), dtype="float32")), checked=False, weight=1,
)  # fmt: skip
def test_heights_that_differ_and_float32(case, run):
    case.check_each(run)


@suite.test(
    "stride", "values",
    Both(2, stride=2), Both(3, (3, 5, 4), stride=2), Both(3, (1, 2, 1), stride=2),
    checked=False,
)  # fmt: skip
def test_stride_2(case, run):
    case.check_each(run)


test_real_mpi = suite.real_ranks("calls", Both(3), weight=1)


@suite.test(
    "sparing", "communication",
    Both(2), Both(4, shape=(1, 2, 3, 20)), Both(2, dtype="float32"), checked=False
, weight=11)  # fmt: skip
def test_bytes_of_halos(case, run, ranks):
    case.check_each(run)
    sent = [sum(own.values()) + int(case.ring_bytes) for own in case.halo_bytes()]
    ranks.record(case, run, {"sent_bytes": sent})
    assert_pairs(run, case.bytes_to(case.halo_bytes()), case)


@suite.test("sparing", "communication", Both(3, (3,), parts=OF_FILTERS), weight=8)
def test_one_all_reduce_of_filters_and_biases(case, run):
    count = sum(each.name == "allreduce" for each in run.collectives)
    if count != 1:
        raise case.fail(f"{count} all-reduces were called; one of dw and db together is asked for.")
    halo = max(sum(own.values()) for own in case.halo_bytes())
    assert_moved(run, halo + case.ring_bytes, case)


test_given_communicator_is_used = suite.given_communicator(
    "calls",
    group(FORWARD, Forward(3)),
    group(BACKWARD, Both(3, parts=OF_INPUTS + OF_FILTERS)),
    weight=8,
)


@suite.test("overlap", "schedule", Forward(3, (6,), announced=True), weight=2)
def test_rows_without_halo_do_not_wait(case, run):
    assert_interior_first(run, case)


test_messages_may_wait_and_come_in_any_order = suite.slow_messages(
    "waits", group(FORWARD, Forward(3)), group(BACKWARD, Both(3, parts=OF_INPUTS + OF_FILTERS)),
    kinds=[Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE],
)  # fmt: skip


@suite.test("anew", "safety", Both(2), weight=1)
def test_inputs_stay_and_results_are_new(case, ranks):
    assert_kept(case, ranks)


@suite.test(
    "overlap", "speed",
    Forward(4, (24,), shape=NARROW, machine=f"{TALL},alpha_s=0.0006", announced=True), weight=13,
)  # fmt: skip
def test_forward_hides_the_halo(case, run):
    beside = f" The halo alone takes {1e6 * case.halo_s('forward'):.0f} µs."
    assert_makespan(run, case.forward_s(), case, beside=beside)


@suite.test(
    "overlap",
    "speed",
    Both(5, (24,), shape=NARROW, machine=f"{TALL},alpha_s=0.0001", announced=True),
    weight=13,
)
def test_backward_hides_halo_and_all_reduce(case, run, ranks):
    alone = Forward(case.p, case.heights, shape=case.shape, machine=case.machine,
                    announced=True, seed=case.seed)  # fmt: skip
    forward_s = right_run(ranks, alone).makespan_s
    beside = f" Of this the forward pass takes {1e6 * forward_s:.0f} µs."
    assert_makespan(run, forward_s + case.backward_s(), case, beside=beside)
