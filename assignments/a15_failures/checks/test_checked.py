"""checked.py: sums and products that notice a wrong bit."""

from checks.cases_checked import Products, Sum
from ringside.checking import assert_moved, assert_peers
from ringside.checking.kills import flipped_cases, line_of
from ringside.checking.suite import Suite, group, right_run

suite = Suite("checked")


@suite.test(
    "ring",
    "values",
    Sum(4),
    Sum(3, special=True),
    group("lengths that p does not divide", Sum(4, n=11)),
)
def test_sum_in_a_ring(case, run):
    neighbours = [{(rank - 1) % case.p, (rank + 1) % case.p} for rank in range(case.p)]
    assert_peers(run, neighbours, case, "a ring has a rank before it and one after it")
    if not all(run.sent_messages()):
        raise case.fail("not every rank sent messages of its own.")
    for record in run.collectives:
        nbytes = record.nbytes // (case.p if "gather" in record.name else 1)
        if nbytes > 8:
            raise case.fail(
                f"the library's {record.name} carried {nbytes} bytes of each rank; one number, 8 "
                "bytes, is allowed."
            )


@suite.test(
    "seen", "values", group("any bit", Sum(4), weight=2),
    group("NaN and infinities", Sum(3, special=True)),
    group("lengths that p does not divide", Sum(3, n=7)),
    group("small numbers beside large ones", Sum(4, uneven=True), weight=4),
)  # fmt: skip
def test_a_flipped_bit(case, ranks):
    for flipped in flipped_cases(ranks, case, 2 * case.p):
        with line_of(flipped):
            right_run(ranks, flipped)


@suite.test("named", "values", Sum(4), weight=2)
def test_sender_of_a_wrong_bit(case, ranks):
    for flipped in flipped_cases(ranks, case, case.p):
        with line_of(flipped):
            flipped.check_sender(right_run(ranks, flipped, checked=False))


@suite.test(
    "named", "values", group("numbers", Sum(4, n=40)), group("NaN", Sum(3, special=True))
)  # fmt: skip
def test_no_bit_was_flipped(case, run):
    case.check_sender(run)


@suite.test("cost", "communication", Sum(4), weight=3)
def test_bytes_per_rank(case, run, ranks):
    ranks.record(case, run, {"sent_bytes": [case.most] * case.p})
    rule = "a checksum for each message of the ring, and one number for all to agree"
    assert_moved(run, case.most, case, rule)


@suite.test("cost", "communication", Sum(4, n=100))
def test_bytes_with_a_wrong_bit(case, ranks):
    for flipped in flipped_cases(ranks, case, 2):
        with line_of(flipped):
            assert_moved(right_run(ranks, flipped), flipped.most, flipped, "the sum, twice")


test_sends_may_wait_and_come_in_any_order = suite.slow_messages("calls", Sum(4), weight=2)
test_given_communicator_is_used = suite.given_communicator("calls", Sum(3), weight=2)
test_second_call_and_inputs = suite.second_call("calls", Sum(3), inputs_kept=True)
test_under_real_mpi = suite.real_ranks("calls", Sum(3, n=20), Sum(3))


@suite.test(
    "mended", "values", group("any bit", Products(2), weight=2),
    group("bits that are just large enough", Products(2, wrong_bits="low")),
    group("large numbers, infinities and NaN", Products(2, wrong_bits="high"), weight=2),
)  # fmt: skip
def test_a_wrong_element(case, run):
    case.check_places(run)


@suite.test(
    "clean", "values", group("products", Products(2, wrong_bits="none")),
    group("c is far smaller than a and b",
          Products(2, count=20, kind="cancels", wrong_bits="none"), weight=2),
    group("small and large numbers", Products(2, kind="small", wrong_bits="none"),
          Products(2, kind="large", wrong_bits="none")),
)  # fmt: skip
def test_no_element_is_wrong(case, run):
    case.check_places(run)
