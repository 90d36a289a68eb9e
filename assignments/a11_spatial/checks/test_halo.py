"""halo.py: rows of the neighbours, to the byte, both ways at once."""

from checks.cases import Exchange, ExchangeGrid, Refused, assert_kept, assert_shares
from ringside.checking import (
    assert_bytes,
    assert_makespan,
    assert_messages,
    assert_own_messages,
    assert_pairs,
)
from ringside.checking.cases import machine_of
from ringside.checking.suite import Suite, group

ONE_ROW, WIDER = "a halo of one row", "wider halos"
SHORT_WIRE = "short wire,eager_threshold_bytes=4096"
suite = Suite("halo")


@suite.test("halo", "values", Exchange(2, (3,)), Exchange(4, (3,)), weight=1)
def test_one_row_on_2_to_5_ranks(case, run):
    """The array, to the bit."""


@suite.test(
    "heights", "values", group(ONE_ROW, Exchange(3, (2, 5, 1))),
    group(WIDER, Exchange(3, (3,), 2, (2, 2, 3))), weight=1,
)  # fmt: skip
def test_heights_that_differ_and_wider_halos(case, run):
    """The array, to the bit."""


@suite.test(
    "dtypes", "values",
    group("float32", Exchange(2, (2,), 1, (2, 1, 1), dtype="float32"), weight=3),
    group("no halo", Exchange(2, (3,), 0), Exchange(1, (4,))), weight=1,
)  # fmt: skip
def test_float32_no_halo_and_one_rank(case, run):
    """No message where there is no halo."""
    if not any(case.neighbours()):
        assert_messages(run, [0] * case.p, case)


@suite.test(
    "grid", "values", ExchangeGrid(4, (3, 2), widths=(4, 3)),
    ExchangeGrid(9, (3, 3, 3), 2, (1, 1), widths=(3, 4, 3)), weight=14,
)  # fmt: skip
def test_grid_with_corners(case, run):
    """The array, to the bit."""


test_real_mpi = suite.real_ranks("calls", Exchange(3, (3, 2, 4), 1, (1, 2, 3)), weight=6)


def assert_counted(case, run, ranks):
    """No rank sends another one more than its halo."""
    sent = [sum(own.values()) for own in case.neighbours()]
    ranks.record(case, run, {"sent_bytes": sent})
    assert_pairs(run, case.bytes_to(case.neighbours()), case)
    assert_bytes(run, sent, case)


def assert_few_messages(case, run):
    """One message to each neighbour, and no library collective."""
    assert_own_messages(run, case)
    assert_messages(run, [len(own) for own in case.neighbours()], case)


@suite.test(
    "sparing",
    "communication",
    Exchange(2, (3,), shape=(2, 3, 5)),
    Exchange(4, (3,), shape=(1, 2, 50)),
    Exchange(3, (3,), dtype="float32"),
)
def test_bytes_and_messages_to_each_neighbour(case, run, ranks):
    assert_shares(
        (1, lambda: assert_counted(case, run, ranks)),
        (1, lambda: assert_few_messages(case, run)),
    )


test_given_communicator_is_used = suite.given_communicator("calls", Exchange(3, (3,)), weight=8)


@suite.test("grid", "communication", ExchangeGrid(9, (3, 3, 3)), weight=7)
def test_corners_of_a_grid_need_no_message(case, run, ranks):
    assert_counted(case, run, ranks)
    assert_few_messages(case, run)


test_sends_may_wait_and_all_is_completed = suite.slow_messages("waits", Exchange(4, (3,)))


@suite.test("anew", "safety", Exchange(2, (3,), shape=(2, 2, 4)), weight=1)
def test_inputs_stay_and_results_are_new(case, ranks):
    assert_kept(case, ranks)


@suite.test(
    "refused", "safety", Refused(5, (3, 3, 1, 3, 3), 2, (1, 2, 3)), Refused(2, (3,), -1, (1, 2, 3))
)
def test_parts_lower_than_the_halo_are_refused(case, run):
    """On the rank and its neighbours; others get their halo."""


@suite.test(
    "time", "speed", group("short rows", Exchange(5, (2,), shape=(1, 1, 20), machine=SHORT_WIRE)),
    group("long rows", Exchange(5, (2,), shape=(1, 1, 10_000), machine="long wire")),
)  # fmt: skip
def test_both_ways_at_once(case, run):
    machine = machine_of(case)
    nbytes = max(sum(own.values()) for own in case.neighbours())
    assert_makespan(run, machine.alpha_s + nbytes * machine.beta_s_per_byte, case)
