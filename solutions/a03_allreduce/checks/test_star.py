"""star.py: everything through rank 0."""

from checks.cases import Star
from checks.network import assert_nobody_else, assert_own_data, assert_time, exchanged
from checks.sums import Sums, shares
from ringside.checking import assert_bytes, assert_peers

suite = Sums("star", Star)
test_sum_on_2_4_and_8_ranks = suite.powers_of_two("sum", weight=3)
test_sum_on_3_5_6_and_7_ranks = suite.other_sizes("sum", weight=8)
test_dtype_is_kept_and_integers_are_exact = suite.dtypes("sum", weight=4)
test_inputs_may_have_gaps_and_stay_as_they_were = suite.inputs("own_arrays", weight=5)
test_second_call_is_independent = suite.again("own_arrays", weight=15)
test_real_mpi = suite.real("own_arrays", weight=2)


@suite.test("through_rank_0", "communication", Star(4, 12), checked=False)
def test_vectors_go_to_rank_0_and_back(case, run):
    both = exchanged(run, case)
    for rank in range(1, case.p):
        if both[0, rank] < case.nbytes:
            raise case.fail(
                f"rank 0 and rank {rank} exchanged {both[0, rank]} bytes; rank {rank}'s whole "
                f"vector of {case.nbytes} bytes must go to rank 0."
            )
    assert_nobody_else(both, case, [(0, rank) for rank in range(1, case.p)])


@suite.test("bytes", "communication", *shares(Star(4, 12), Star(3, 7, "float32")))
def test_bytes_per_rank(case, run, ranks):
    """Rank 0 moves every other rank's vector, the others their own."""
    assert_own_data(run, case)
    allowed = [(case.p - 1) * case.nbytes] + [case.nbytes] * (case.p - 1)
    ranks.record(case, run, {"sent_bytes": allowed})
    assert_bytes(run, allowed, case)


@suite.test("messages", "communication", Star(4, 10))
def test_messages_go_through_rank_0(case, run):
    assert_own_data(run, case)
    allowed = [set(range(1, case.p))] + [{0}] * (case.p - 1)
    rule = "ranks other than 0 exchange messages with rank 0 only"
    assert_peers(run, allowed, case, rule)


test_given_communicator_is_used = suite.in_part("communicator")
test_only_point_to_point_calls = suite.point_to_point("messages")
test_sends_may_wait_for_their_receives = suite.waiting("any_timing", weight=5, complete=True)
test_messages_may_arrive_in_any_order = suite.any_order("any_timing", weight=14)


@suite.test("time", "speed", Star(8, 10_000, machine="long wire"))
def test_time_with_long_vectors(case, run):
    assert_time(run, case)
