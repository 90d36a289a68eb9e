"""star.py: everything through rank 0."""

from functools import partial

import pytest

from autograder.suites.a03_allreduce import oracle, trial
from ringside.checking import (
    Case,
    assert_bytes,
    assert_messages,
    assert_peers,
    long_wire,
)

TARGET = "star:all_reduce"
CASES = [Case(TARGET, p, n) for p, n in ((4, 37), (3, 64), (5, 5003))] + trial.sweep(TARGET)


def points(number, kind):
    return pytest.mark.points(number, kind=kind, module="star")


@points(11, "values")
def test_sum_on_2_4_and_8_ranks(ranks, rng):
    trial.check_sums(ranks, rng, TARGET, trial.POWERS_OF_TWO)


@points(11, "values")
def test_sum_on_3_5_6_and_7_ranks(ranks, rng):
    trial.check_sums(ranks, rng, TARGET, trial.OTHER_SIZES)


@points(6, "values")
def test_dtype_is_kept_and_integers_are_exact(ranks, rng):
    trial.check_sums(ranks, rng, TARGET, (1, 3, 4, 7), ("float32", "int64"))


@points(4, "values")
def test_strided_and_read_only_input(ranks, rng):
    trial.check_strided(ranks, rng, [Case(TARGET, p, 11) for p in (1, 2, 5)], trial.summed)


@points(4, "values")
def test_input_stays_as_it_was(ranks, rng):
    trial.check_inputs_kept(ranks, rng, [Case(TARGET, p, 13) for p in (1, 2, 4, 5)])


@points(4, "values")
def test_second_call_is_independent(ranks, rng):
    trial.check_second_call(ranks, rng, [Case(TARGET, p, n) for p in (1, 2, 4, 5) for n in (9, 0)])


@points(5, "reality")
def test_real_mpi(mpi, rng):
    trial.check_real_mpi(mpi, rng, [Case(TARGET, p, n) for p in (4, 3) for n in (1, 11, 2003)])


@points(12, "communication")
def test_bytes_per_rank(ranks, rng):
    for case in CASES:
        result = trial.reduced(ranks, rng, case)
        ranks.record(case, result, {"sent_bytes": oracle.star_bytes(case)})
        assert_bytes(result, oracle.star_bytes(case), case)
        limit = [64 * (case.world_size - 1)] + [64] * (case.world_size - 1)
        assert_messages(result, limit, case)


@points(8, "communication")
def test_messages_go_through_rank_0(ranks, rng):
    for case in CASES:
        result = trial.reduced(ranks, rng, case)
        others = set(range(1, case.world_size))
        allowed = [others] + [{0}] * (case.world_size - 1)
        rule = "ranks other than 0 exchange messages with rank 0 only"
        assert_peers(result, allowed, case, rule)


@points(5, "communication")
def test_given_communicator_is_used(ranks, rng):
    trial.check_given_communicator(ranks, rng, trial.of_each_dtype(TARGET))


@points(5, "communication")
def test_only_point_to_point_calls(ranks, rng):
    trial.check_point_to_point(
        ranks, rng, [Case(TARGET, 1, 10), Case(TARGET, 3, 0), *trial.sweep(TARGET)]
    )


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    trial.check_rendezvous(ranks, rng, trial.sweep(TARGET))


@points(5, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    trial.check_any_order(ranks, rng, [Case(TARGET, 4, 21), Case(TARGET, 5, 3)])


@points(15, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250) for p in (7, 12)]
    bound_s = partial(oracle.seconds, "star")
    trial.check_makespans(ranks, rng, cases, long_wire(), bound_s)
