"""star.py: everything through rank 0."""

from functools import partial

from ringside.checking import (
    Case,
    assert_bytes,
    assert_peers,
    long_wire,
)
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

TARGET = "star:all_reduce"
CASES = [Case(TARGET, p, n) for p, n in ((4, 37), (3, 64), (5, 5003))] + runs.everywhere(TARGET)

shared = SharedTests("star", [TARGET])
points = shared.points

test_sum_on_2_4_and_8_ranks = shared.sums(10, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(10, runs.OTHER_SIZES)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(6)
test_inputs_may_have_gaps_and_stay_as_they_were = shared.inputs(6)
test_second_call_is_independent = shared.second_call(4)
test_real_mpi = shared.real_mpi(4)
test_vectors_go_to_rank_0_and_back = shared.scheme(8)


@points(12, "communication")
def test_bytes_per_rank(ranks, rng):
    def check(case):
        result = runs.seen(ranks, case)
        ranks.record(case, result, {"sent_bytes": oracle.star_bytes(case)})
        assert_bytes(result, oracle.star_bytes(case), case)

    runs.check_each(CASES, check)


@points(6, "communication")
def test_messages_go_through_rank_0(ranks, rng):
    def check(case):
        others = set(range(1, case.world_size))
        allowed = [others] + [{0}] * (case.world_size - 1)
        rule = "ranks other than 0 exchange messages with rank 0 only"
        assert_peers(runs.seen(ranks, case), allowed, case, rule)

    runs.check_each(CASES, check)


test_given_communicator_is_used = shared.given_communicator(5)
test_only_point_to_point_calls = shared.point_to_point(4)
test_sends_may_wait_for_their_receives = shared.rendezvous(5)
test_messages_may_arrive_in_any_order = shared.any_order(5)


@points(15, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250) for p in (7, 8, 12, 32)]
    bound_s = partial(oracle.seconds, "star")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)
