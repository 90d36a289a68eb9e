"""recursive.py: log2(p) steps, whole vectors or ever smaller parts."""

from functools import partial

from ringside.checking import (
    Case,
    assert_bytes,
    assert_messages,
    long_wire,
    short_wire,
)
from ringside.checking.case_kinds import check_kinds
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

DOUBLING = "recursive:recursive_doubling"
HALVING = "recursive:halving_doubling"
PLAIN = (8, 400)  # ranks and length on which each function must be its scheme


doubling = SharedTests("recursive", [DOUBLING])
halving = SharedTests("recursive", [HALVING])
shared = SharedTests("recursive", [DOUBLING, HALVING])
points = shared.points

test_each_rank_has_log2_p_partners = shared.scheme(6, *PLAIN)
test_recursive_doubling_on_2_4_and_8_ranks = doubling.sums(7, runs.POWERS_OF_TWO, PLAIN)
test_recursive_doubling_on_3_5_6_and_7_ranks = doubling.sums(6, runs.OTHER_SIZES, PLAIN)
test_halving_doubling_on_2_4_and_8_ranks = halving.sums(7, runs.POWERS_OF_TWO, PLAIN)
test_halving_doubling_on_3_5_6_and_7_ranks = halving.sums(6, runs.OTHER_SIZES, PLAIN)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(4)
test_inputs_may_have_gaps_and_stay_as_they_were = shared.inputs(5)
test_second_call_is_independent = shared.second_call(4)
test_real_mpi = shared.real_mpi(4)


@points(11, "communication")
def test_recursive_doubling_bytes_and_messages(ranks, rng):
    def check(case):
        result, exchanges = runs.seen(ranks, case), sum(oracle.steps_and_fold(case.world_size))
        ranks.record(case, result, {"sent_bytes": oracle.doubling_bytes(case)})
        assert_bytes(result, oracle.doubling_bytes(case), case)
        assert_messages(result, [exchanges] * case.world_size, case)

    sizes = ((4, 64), (16, 16), (6, 5003), (4, 5003))
    runs.check_each([Case(DOUBLING, *each) for each in sizes] + runs.everywhere(DOUBLING), check)


@points(10, "communication")
def test_halving_doubling_bytes(ranks, rng):
    def check(case):
        result = runs.seen(ranks, case)
        ranks.record(case, result, {"sent_bytes": oracle.halving_bytes(case)})
        assert_bytes(result, oracle.halving_bytes(case), case)

    sizes = ((4, 64), (8, 200), (6, 203), (4, 5003))
    runs.check_each([Case(HALVING, *each) for each in sizes] + runs.everywhere(HALVING), check)


test_given_communicator_is_used = shared.given_communicator(4)
test_only_point_to_point_calls = shared.point_to_point(3)
test_sends_may_wait_for_their_receives = shared.rendezvous(4)
test_messages_may_arrive_in_any_order = shared.any_order(4)


def check_times(ranks, rng, long, short, name):
    """Long vectors and short ones share the points."""
    bound_s = partial(oracle.seconds, name)
    check = partial(runs.check_makespans, ranks, rng)
    checks = {
        "long vectors": partial(check, long, long_wire(), bound_s),
        "short vectors": partial(check, short, short_wire(), bound_s, full=2.5, half=4),
    }
    check_kinds(checks, str, lambda words: checks[words]())


@points(7, "speed")
def test_recursive_doubling_time(ranks, rng):
    long = [Case(DOUBLING, p, 1200) for p in (6, 16, 33)]
    short = [Case(DOUBLING, p, n) for p, n in ((6, 12), (16, 16), (33, 33))]
    check_times(ranks, rng, long, short, "recursive_doubling")


@points(8, "speed")
def test_halving_doubling_time(ranks, rng):
    long = [Case(HALVING, p, 1250 * p) for p in (6, 16, 33)]
    short = [Case(HALVING, p, 32) for p in (8, 16, 32)]
    check_times(ranks, rng, long, short, "halving_doubling")
