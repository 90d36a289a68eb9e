"""ring_torch.py: the ring on torch.distributed, in place."""

from functools import partial

from ringside.checking import (
    Case,
    Verdict,
    assert_bytes,
    assert_own_messages,
    assert_peers,
    assert_ran,
    assert_sum,
    buffered,
    long_wire,
    magnitude,
    total,
)
from ringside.checking.case_kinds import check_kinds
from solutions.a03_allreduce import examples
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests

TARGET = "callers_torch:all_reduce"
MODULE = "ring_torch:all_reduce"

shared = SharedTests("ring_torch", [TARGET])
points = shared.points


def neighbours(world_size):
    return [{(r - 1) % world_size, (r + 1) % world_size} for r in range(world_size)]


test_data_goes_round_the_ring = shared.scheme(8)
test_sum_on_2_4_and_8_ranks = shared.sums(12, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(11, runs.OTHER_SIZES)
test_dtype_is_kept_and_integers_are_exact = shared.dtypes(6)


@points(6, "values")
def test_tensor_with_gaps(ranks, rng):
    def check(case):
        for stride in (2, 3):
            vectors = case.vectors(rng)
            arguments = [(stride, x) for x in vectors]
            result = ranks.call(
                "callers_torch:strided", case.world_size, arguments, machine=buffered()
            )
            seen = case.called_by(f"callers_torch:strided --stride {stride}").seen_in(result)
            assert_ran(result, seen)
            for rank, value in enumerate(result.values):
                right = total(vectors), magnitude(vectors), vectors
                examples.check_torch_strided(seen, rank, value, right)

    runs.check_each([Case(MODULE, *each) for each in ((1, 11), (2, 12), (4, 11), (3, 11))], check)
    case = Case(MODULE, 2, 12)
    arguments = case.arguments(case.vectors(rng))
    result = ranks.call("callers_torch:returned", 2, arguments, machine=buffered())
    case = case.called_by("callers_torch:returned").seen_in(result)
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.check_returned(case, rank, value)


@points(5, "values")
def test_second_call_is_independent(ranks, rng):
    def check(case):
        first, second = case.vectors(rng), case.vectors(rng)
        arguments = list(zip(first, second, strict=True))
        result = ranks.call("callers_torch:twice", case.world_size, arguments, machine=buffered())
        seen = case.called_by("callers_torch:twice", 2).seen_in(result)
        assert_ran(result, seen)
        rights = [(total(vectors), magnitude(vectors), vectors) for vectors in (first, second)]
        for rank, value in enumerate(result.values):
            examples.check_torch_twice(seen, rank, value, *rights)

    sizes = ((1, 9), (2, 8), (4, 9), (4, 0), (4, 12), (3, 9), (3, 12))
    runs.check_each([Case(MODULE, *each) for each in sizes], check)


@points(5, "reality")
def test_real_gloo(gloo, rng):
    cases = [Case(TARGET, p, n) for p in (4, 3) for n in (12, 11, runs.LARGE)]
    inputs = [case.vectors(rng) for case in cases]
    calls = [
        (case.target, case.world_size, case.arguments(vectors))
        for case, vectors in zip(cases, inputs, strict=True)
    ]
    made = list(zip(cases, inputs, gloo.call_all(calls), strict=True))

    def check(run):
        case, vectors, result = run
        try:
            assert_sum(result, vectors, case)
        except Verdict as verdict:
            raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None

    check_kinds(made, lambda run: runs.kind_of(run[0]), check, weights=runs.WEIGHTS)


CASES = [Case(TARGET, p, n) for p, n in ((4, 64), (5, 203), (8, 9), (6, 5004), (17, 77))]


@points(14, "communication")
def test_bytes_per_rank(ranks, rng):
    def check(case):
        result = runs.seen(ranks, case)
        allowed = oracle.ring_bytes(case, rounds=2)
        ranks.record(case, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, case)

    runs.check_each(CASES + runs.sweep(TARGET), check)


@points(6, "communication")
def test_messages_go_to_neighbours_only(ranks, rng):
    rule = "a rank talks to its two neighbours only"

    def check(case):
        assert_peers(runs.seen(ranks, case), neighbours(case.world_size), case, rule)

    runs.check_each(CASES + runs.sweep(TARGET), check)


test_given_group_is_used = shared.given_communicator(5)


@points(4, "communication")
def test_only_point_to_point_calls(ranks, rng):
    def check(case):
        result = runs.shared_run(ranks, case)
        assert_own_messages(result, case)
        if result.comm_calls:
            raise case.fail("a group was made; only calls with the given group are allowed.")

    runs.check_each([Case(TARGET, 1, 10), Case(TARGET, 3, 0), *runs.sweep(TARGET)], check)


test_sends_may_wait_for_their_receives = shared.rendezvous(8)


@points(10, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250 * p) for p in (7, 8, 16)]
    bound_s = partial(oracle.seconds, "ring")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)
