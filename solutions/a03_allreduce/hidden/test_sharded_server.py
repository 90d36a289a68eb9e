"""sharded_server.py: rank i serves shard i."""

from functools import partial

from ringside.checking import Case, assert_pairs, long_wire
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

TARGET = "sharded_server:all_reduce"

shared = SharedTests("sharded_server", [TARGET])
points = shared.points

test_every_two_ranks_exchange_shards = shared.scheme(8, 8, 64)
test_sum_on_2_4_and_8_ranks = shared.sums(10, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(10, runs.OTHER_SIZES)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(6)
test_inputs_may_have_gaps_and_stay_as_they_were = shared.inputs(6)
test_second_call_is_independent = shared.second_call(4)
test_real_mpi = shared.real_mpi(4)


@points(18, "communication")
def test_bytes_between_each_pair(ranks, rng):
    # Shards of different length show who serves which.
    sizes = ((4, 40), (5, 203), (8, 64), (6, 5003), (5, 8), (7, 9), (7, 12))
    cases = [Case(TARGET, p, n) for p, n in sizes] + runs.everywhere(TARGET)

    def check(case):
        result, allowed = runs.seen(ranks, case), oracle.server_pairs(case)
        ranks.record(case, result, {"sent_bytes": allowed.sum(axis=1).tolist()})
        assert_pairs(result, allowed, case)

    runs.check_each(cases, check)


test_given_communicator_is_used = shared.given_communicator(5)
test_only_point_to_point_calls = shared.point_to_point(4)
test_sends_may_wait_for_their_receives = shared.rendezvous(5)
test_messages_may_arrive_in_any_order = shared.any_order(5)


@points(15, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250 * p) for p in (7, 8, 12, 32)]
    bound_s = partial(oracle.seconds, "sharded_server")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)
