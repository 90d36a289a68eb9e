"""recursive.py: log2(p) steps, whole vectors or ever smaller parts."""

from functools import partial

from ringside.checking import (
    Case,
    assert_bytes,
    assert_messages,
    long_wire,
    short_wire,
)
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

DOUBLING = "recursive:recursive_doubling"
HALVING = "recursive:halving_doubling"


doubling = SharedTests("recursive", [DOUBLING])
halving = SharedTests("recursive", [HALVING])
shared = SharedTests("recursive", [DOUBLING, HALVING])
points = shared.points

test_recursive_doubling_on_2_4_and_8_ranks = doubling.sums(8, runs.POWERS_OF_TWO)
test_recursive_doubling_on_3_5_6_and_7_ranks = doubling.sums(6, runs.OTHER_SIZES)
test_halving_doubling_on_2_4_and_8_ranks = halving.sums(8, runs.POWERS_OF_TWO)
test_halving_doubling_on_3_5_6_and_7_ranks = halving.sums(6, runs.OTHER_SIZES)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(4)
test_strided_and_read_only_input = shared.strided(3)
test_input_stays_as_it_was = shared.inputs_kept(3)
test_second_call_is_independent = shared.second_call(3)
test_real_mpi = shared.real_mpi(4)


@points(7, "communication")
def test_recursive_doubling_bytes_per_rank(ranks, rng):
    for case in (Case(DOUBLING, 4, 64), Case(DOUBLING, 6, 5003), *runs.everywhere(DOUBLING)):
        result = runs.seen(ranks, case)
        ranks.record(case, result, {"sent_bytes": oracle.doubling_bytes(case)})
        assert_bytes(result, oracle.doubling_bytes(case), case)


@points(5, "communication")
def test_recursive_doubling_messages_per_rank(ranks, rng):
    more = [Case(DOUBLING, 16, 16), Case(DOUBLING, 4, 128), Case(DOUBLING, 4, 5003)]
    for case in (*more, *runs.everywhere(DOUBLING)):
        allowed = [sum(oracle.steps_and_fold(case.world_size))] * case.world_size
        assert_messages(runs.seen(ranks, case), allowed, case)


@points(10, "communication")
def test_halving_doubling_bytes_per_rank(ranks, rng):
    sizes = ((4, 64), (8, 200), (6, 203), (4, 5003))
    for case in (*(Case(HALVING, p, n) for p, n in sizes), *runs.everywhere(HALVING)):
        result = runs.seen(ranks, case)
        ranks.record(case, result, {"sent_bytes": oracle.halving_bytes(case)})
        assert_bytes(result, oracle.halving_bytes(case), case)
        _, fold = oracle.steps_and_fold(case.world_size)
        allowed = [64 * 2 * (case.world_size - 1 + fold)] * case.world_size
        assert_messages(result, allowed, case)


test_given_communicator_is_used = shared.given_communicator(4)
test_only_point_to_point_calls = shared.point_to_point(4)
test_sends_may_wait_for_their_receives = shared.rendezvous(5)
test_messages_may_arrive_in_any_order = shared.any_order(5)


@points(3, "speed")
def test_recursive_doubling_time_with_long_vectors(ranks, rng):
    cases = [Case(DOUBLING, p, 1250) for p in (6, 16, 33)]
    bound_s = partial(oracle.seconds, "recursive_doubling")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)


@points(4, "speed")
def test_recursive_doubling_time_with_short_vectors(ranks, rng):
    cases = [Case(DOUBLING, p, 8) for p in (6, 16, 33)]
    bound_s = partial(oracle.seconds, "recursive_doubling")
    runs.check_makespans(ranks, rng, cases, short_wire(), bound_s, full=2.5, half=4)


@points(5, "speed")
def test_halving_doubling_time_with_long_vectors(ranks, rng):
    cases = [Case(HALVING, p, 1250 * p) for p in (6, 16, 33)]
    bound_s = partial(oracle.seconds, "halving_doubling")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)


@points(3, "speed")
def test_halving_doubling_time_with_short_vectors(ranks, rng):
    cases = [Case(HALVING, p, 32) for p in (8, 16, 32)]
    bound_s = partial(oracle.seconds, "halving_doubling")
    runs.check_makespans(ranks, rng, cases, short_wire(), bound_s, full=2.5, half=4)
