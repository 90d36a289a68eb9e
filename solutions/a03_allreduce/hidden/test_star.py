"""star.py: everything through rank 0."""

from functools import partial

from ringside.checking import (
    Case,
    assert_bytes,
    assert_messages,
    assert_peers,
    long_wire,
)
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

TARGET = "star:all_reduce"
CASES = [Case(TARGET, p, n) for p, n in ((4, 37), (3, 64), (5, 5003))] + runs.everywhere(TARGET)

shared = SharedTests("star", [TARGET])
points = shared.points

test_sum_on_2_4_and_8_ranks = shared.sums(11, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(11, runs.OTHER_SIZES)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(6)
test_strided_and_read_only_input = shared.strided(4)
test_input_stays_as_it_was = shared.inputs_kept(4)
test_second_call_is_independent = shared.second_call(4)
test_real_mpi = shared.real_mpi(5)


@points(12, "communication")
def test_bytes_per_rank(ranks, rng):
    for case in CASES:
        result = runs.seen(ranks, case)
        ranks.record(case, result, {"sent_bytes": oracle.star_bytes(case)})
        assert_bytes(result, oracle.star_bytes(case), case)
        limit = [64 * (case.world_size - 1)] + [64] * (case.world_size - 1)
        assert_messages(result, limit, case)


@points(8, "communication")
def test_messages_go_through_rank_0(ranks, rng):
    for case in CASES:
        result = runs.seen(ranks, case)
        others = set(range(1, case.world_size))
        allowed = [others] + [{0}] * (case.world_size - 1)
        rule = "ranks other than 0 exchange messages with rank 0 only"
        assert_peers(result, allowed, case, rule)


test_given_communicator_is_used = shared.given_communicator(5)
test_only_point_to_point_calls = shared.point_to_point(5)
test_sends_may_wait_for_their_receives = shared.rendezvous(5)
test_messages_may_arrive_in_any_order = shared.any_order(5)


@points(15, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250) for p in (7, 8, 12, 33)]
    bound_s = partial(oracle.seconds, "star")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)
