"""recursive.py: log2(p) steps, whole vectors or ever smaller parts."""

from functools import partial

import pytest

from autograder.suites.a03_allreduce import oracle, trial
from ringside.checking import (
    Case,
    assert_bytes,
    assert_messages,
    long_wire,
    short_wire,
)

DOUBLING = "recursive:recursive_doubling"
HALVING = "recursive:halving_doubling"
BOTH = (DOUBLING, HALVING)


def points(number, kind):
    return pytest.mark.points(number, kind=kind, module="recursive")


def cases(*sizes):
    return [Case(target, world_size, n) for target in BOTH for world_size, n in sizes]


@points(8, "values")
def test_recursive_doubling_on_2_4_and_8_ranks(ranks, rng):
    trial.check_sums(ranks, rng, DOUBLING, trial.POWERS_OF_TWO)


@points(6, "values")
def test_recursive_doubling_on_3_5_6_and_7_ranks(ranks, rng):
    trial.check_sums(ranks, rng, DOUBLING, trial.OTHER_SIZES)


@points(8, "values")
def test_halving_doubling_on_2_4_and_8_ranks(ranks, rng):
    trial.check_sums(ranks, rng, HALVING, trial.POWERS_OF_TWO)


@points(6, "values")
def test_halving_doubling_on_3_5_6_and_7_ranks(ranks, rng):
    trial.check_sums(ranks, rng, HALVING, trial.OTHER_SIZES)


@points(4, "values")
def test_dtype_is_kept_and_integers_are_exact(ranks, rng):
    for target in BOTH:
        trial.check_sums(ranks, rng, target, (1, 3, 4, 7), ("float32", "int64"))


@points(3, "values")
def test_strided_and_read_only_input(ranks, rng):
    trial.check_strided(ranks, rng, cases((1, 11), (2, 11), (5, 11)), trial.summed)


@points(3, "values")
def test_input_stays_as_it_was(ranks, rng):
    trial.check_inputs_kept(ranks, rng, cases((1, 13), (2, 13), (4, 13), (5, 13)))


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    trial.check_second_call(ranks, rng, cases((1, 9), (1, 0), (2, 9), (4, 9), (4, 0), (5, 9)))


@points(4, "reality")
def test_real_mpi(mpi, rng):
    trial.check_real_mpi(mpi, rng, cases((4, 1), (4, 2003), (3, 11)))


@points(7, "communication")
def test_recursive_doubling_bytes_per_rank(ranks, rng):
    for case in (Case(DOUBLING, 4, 64), Case(DOUBLING, 6, 5003), *trial.sweep(DOUBLING)):
        result = trial.reduced(ranks, rng, case)
        ranks.record(case, result, {"sent_bytes": oracle.doubling_bytes(case)})
        assert_bytes(result, oracle.doubling_bytes(case), case)


@points(5, "communication")
def test_recursive_doubling_messages_per_rank(ranks, rng):
    more = [Case(DOUBLING, 16, 16), Case(DOUBLING, 4, 128), Case(DOUBLING, 4, 5003)]
    for case in (*more, *trial.sweep(DOUBLING)):
        allowed = [sum(oracle.steps_and_fold(case.world_size))] * case.world_size
        assert_messages(trial.reduced(ranks, rng, case), allowed, case)


@points(10, "communication")
def test_halving_doubling_bytes_per_rank(ranks, rng):
    sizes = ((4, 64), (8, 200), (6, 203), (4, 5003))
    for case in (*(Case(HALVING, p, n) for p, n in sizes), *trial.sweep(HALVING)):
        result = trial.reduced(ranks, rng, case)
        ranks.record(case, result, {"sent_bytes": oracle.halving_bytes(case)})
        assert_bytes(result, oracle.halving_bytes(case), case)
        _, fold = oracle.steps_and_fold(case.world_size)
        allowed = [64 * 2 * (case.world_size - 1 + fold)] * case.world_size
        assert_messages(result, allowed, case)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    for target in BOTH:
        trial.check_given_communicator(ranks, rng, trial.of_each_dtype(target))


@points(4, "communication")
def test_only_point_to_point_calls(ranks, rng):
    for target in BOTH:
        trial.check_point_to_point(
            ranks, rng, [Case(target, 1, 10), Case(target, 3, 0), *trial.sweep(target)]
        )


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for target in BOTH:
        trial.check_rendezvous(ranks, rng, trial.sweep(target))


@points(5, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    trial.check_any_order(ranks, rng, cases((4, 21), (5, 3)))


@points(3, "speed")
def test_recursive_doubling_time_with_long_vectors(ranks, rng):
    cases = [Case(DOUBLING, p, 1250) for p in (6, 16)]
    bound_s = partial(oracle.seconds, "recursive_doubling")
    trial.check_makespans(ranks, rng, cases, long_wire(), bound_s)


@points(4, "speed")
def test_recursive_doubling_time_with_short_vectors(ranks, rng):
    cases = [Case(DOUBLING, p, 8) for p in (6, 16)]
    bound_s = partial(oracle.seconds, "recursive_doubling")
    trial.check_makespans(ranks, rng, cases, short_wire(), bound_s, full=2.5, half=4)


@points(5, "speed")
def test_halving_doubling_time_with_long_vectors(ranks, rng):
    cases = [Case(HALVING, p, 1250 * p) for p in (6, 16)]
    bound_s = partial(oracle.seconds, "halving_doubling")
    trial.check_makespans(ranks, rng, cases, long_wire(), bound_s)


@points(3, "speed")
def test_halving_doubling_time_with_short_vectors(ranks, rng):
    cases = [Case(HALVING, p, 32) for p in (8, 16)]
    bound_s = partial(oracle.seconds, "halving_doubling")
    trial.check_makespans(ranks, rng, cases, short_wire(), bound_s, full=2.5, half=4)
