"""ring_torch.py: the ring on torch.distributed, in place."""

from checks.cases import TorchRing
from checks.network import (
    assert_neighbours_only,
    assert_own_data,
    assert_round_a_ring,
    assert_time,
)
from checks.sums import Sums, shares
from ringside.checking import assert_bytes, assert_own_messages

suite = Sums("ring_torch", TorchRing)


@suite.test("round_the_ring", "communication", TorchRing(4, 12), checked=False)
def test_data_goes_round_the_ring(case, run):
    assert_round_a_ring(run, case)


test_sum_on_2_4_and_8_ranks = suite.powers_of_two("sum", weight=6)
test_sum_on_3_5_6_and_7_ranks = suite.other_sizes("sum", weight=6)
test_dtype_is_kept_and_integers_are_exact = suite.dtypes("sum", weight=6)


@suite.test("in_place", "values", *shares(TorchRing(3, 7, stride=2), TorchRing(4, 8, stride=3)))
def test_tensor_with_gaps(case, run):
    """x is part of a longer tensor, of which nothing else changes."""
    case.check_exactly(run)


test_second_call_is_independent = suite.again("calls", weight=11)
test_real_gloo = suite.real("calls", weight=3)


@suite.test("bytes", "communication", *shares(TorchRing(4, 12), TorchRing(3, 10, "float32")))
def test_bytes_per_rank(case, run, ranks):
    assert_own_data(run, case)
    ranks.record(case, run, {"sent_bytes": [case.ring_nbytes] * case.p})
    assert_bytes(run, [case.ring_nbytes] * case.p, case)


@suite.test("messages", "communication", *shares(TorchRing(4, 12), TorchRing(5, 10)), weight=3)
def test_messages_go_to_neighbours_only(case, run):
    assert_neighbours_only(run, case)


test_given_group_is_used = suite.in_part("group", comm="the group")


@suite.test("messages", "communication", *shares(TorchRing(1, 10), TorchRing(4, 12)), weight=4)
def test_only_point_to_point_calls(case, run):
    assert_own_messages(run, case)
    if run.comm_calls:
        raise case.fail("a group was made; only calls with the given group are allowed.")


test_sends_may_wait_for_their_receives = suite.waiting("any_timing", complete=True)


@suite.test("time", "speed", TorchRing(8, 10_000, machine="long wire"))
def test_time_with_long_vectors(case, run):
    assert_time(run, case)
