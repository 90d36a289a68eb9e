"""sharded_server.py: rank i serves shard i."""

from functools import partial

from ringside.checking import Case, assert_messages, assert_pairs, long_wire
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

TARGET = "sharded_server:all_reduce"

shared = SharedTests("sharded_server", [TARGET])
points = shared.points

test_sum_on_2_4_and_8_ranks = shared.sums(11, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(11, runs.OTHER_SIZES)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(6)
test_strided_and_read_only_input = shared.strided(4)
test_input_stays_as_it_was = shared.inputs_kept(4)
test_second_call_is_independent = shared.second_call(4)
test_real_mpi = shared.real_mpi(5)


@points(12, "communication")
def test_bytes_between_each_pair(ranks, rng):
    for case in (Case(TARGET, p, n) for p, n in ((4, 40), (5, 205), (8, 64), (6, 5003))):
        result = runs.seen(ranks, case)
        ranks.record(case, result, {"sent_bytes": oracle.server_pairs(case).sum(axis=1).tolist()})
        assert_pairs(result, oracle.server_pairs(case), case)
        assert_messages(result, [128 * (case.world_size - 1)] * case.world_size, case)


@points(8, "communication")
def test_rank_i_serves_shard_i(ranks, rng):
    # Shards of different length: whoever serves another rank's shard moves too much somewhere.
    # Whichever two ranks are taken, in one of these cases the first serves the longer shard.
    uneven = [Case(TARGET, p, p + longer) for p in (5, 7) for longer in range(1, p)]
    for case in (*runs.everywhere(TARGET), *uneven):
        assert_pairs(runs.seen(ranks, case), oracle.server_pairs(case), case)


test_given_communicator_is_used = shared.given_communicator(5)
test_only_point_to_point_calls = shared.point_to_point(5)
test_sends_may_wait_for_their_receives = shared.rendezvous(5)
test_messages_may_arrive_in_any_order = shared.any_order(5)


@points(15, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250 * p) for p in (7, 8, 12, 33)]
    bound_s = partial(oracle.seconds, "sharded_server")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)
