"""ring.py: neighbours only, shard by shard."""

from checks.cases import Gather, Ring, Scatter
from checks.network import (
    assert_neighbours_only,
    assert_own_data,
    assert_round_a_ring,
    assert_time,
)
from checks.sums import Sums, shares
from ringside.checking import assert_bytes, assert_messages
from ringside.checking.suite import group

suite = Sums("ring", Ring)
HALVES = Scatter, Gather


@suite.test(
    "round_the_ring", "communication", group("reduce_scatter", Scatter(4, 12)),
    group("all_gather", Gather(4, 12)), group("all_reduce", Ring(4, 12)), checked=False,
)  # fmt: skip
def test_data_goes_round_the_ring(case, run):
    assert_round_a_ring(run, case)


@suite.test(
    "halves",
    "values",
    *shares(Scatter(4, 8), Scatter(3, 7), Scatter(1, 2), Scatter(5, 3)),
    weight=5,
)
def test_reduce_scatter_gives_rank_r_shard_r(case, run):
    """As shard_bounds cuts."""
    case.check_exactly(run)


@suite.test(
    "halves", "values", *shares(Gather(4, 8), Gather(3, 7), Gather(1, 2), Gather(5, 3)), weight=5
)
def test_all_gather_puts_shards_in_order(case, run):
    """The same on every rank."""
    case.check_exactly(run)


test_sum_on_2_4_and_8_ranks = suite.powers_of_two("sum", weight=4)
test_sum_on_3_5_6_and_7_ranks = suite.other_sizes("sum", weight=4)
test_dtype_is_kept_and_integers_are_exact = suite.dtypes(
    "sum", Scatter(3, 7, "int64"), Gather(3, 7, "float32"), weight=4
)
test_inputs_may_have_gaps_and_stay_as_they_were = suite.inputs(
    "own_arrays",
    *(half(*size) for half in HALVES for size in ((4, 9), (3, 7))),
    *(half(3, 7, stride=2) for half in HALVES),
    weight=5,
)
test_second_call_is_independent = suite.again(
    "own_arrays", *(half(p, 6, again=True) for half in HALVES for p in (3, 1)), weight=18
)
test_real_mpi = suite.real("own_arrays", weight=2)


@suite.test(
    "bytes", "communication",
    *shares(Ring(4, 12), Ring(3, 10, "float32"), Scatter(3, 6), Gather(3, 6)),
)  # fmt: skip
def test_bytes_per_rank(case, run, ranks):
    """At most 2 (p - 1) shards of ceil(n / p) elements, and half of that in a half."""
    assert_own_data(run, case)
    if not isinstance(case, Ring):
        assert_bytes(run, [case.ring_nbytes // 2] * case.p, case)
        return
    allowed = [case.ring_nbytes] * case.p
    ranks.record(case, run, {"sent_bytes": allowed})
    assert_bytes(run, allowed, case)
    assert_messages(run, [128 * (case.p - 1)] * case.p, case)


@suite.test("messages", "communication", *shares(Ring(4, 12), Scatter(5, 10), Gather(5, 10)))
def test_messages_go_to_neighbours_only(case, run):
    assert_neighbours_only(run, case)


test_given_communicator_is_used = suite.in_part("communicator", *(half(3, 11) for half in HALVES))
test_only_point_to_point_calls = suite.point_to_point(
    "messages", *(half(4, 10) for half in HALVES), weight=2
)
test_sends_may_wait_for_their_receives = suite.waiting(
    "any_timing", *(half(3, 10) for half in HALVES), weight=5
)
test_messages_may_arrive_in_any_order = suite.any_order(
    "any_timing", *(half(4, 20) for half in HALVES), weight=16
)


@suite.test("time", "speed", Ring(8, 10_000, machine="long wire"), weight=8)
def test_time_with_long_vectors(case, run):
    assert_time(run, case)


@suite.test("time", "speed", Ring(8, 16, machine="short wire"), weight=5)
def test_time_with_short_vectors(case, run):
    assert_time(run, case, full=2.5, half=4)
