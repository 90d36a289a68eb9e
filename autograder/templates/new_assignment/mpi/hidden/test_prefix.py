"""prefix.py: sums of all ranks up to one's own."""

import functools

from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_array,
    assert_bytes,
    assert_inputs_kept,
    assert_makespan,
    assert_own_messages,
    assert_ran,
    assert_requests_complete,
    assert_strangers_idle,
    assert_values,
    buffered,
    contrasted,
    long_wire,
    magnitude,
    members_of_world,
    rendezvous,
    total,
    with_waiting_sends,
)
from ringside.checking.points import points_of

TARGET = "prefix:prefix_sum"
SIZES = ((2, 9, "float64"), (3, 1, "int64"), (4, 3, "float32"), (5, 53, "float64"), (8, 7, "int64"))
SWEEP = [Case(TARGET, *size) for size in SIZES]

points = points_of("prefix")


def check(result, vectors, case):
    """Rank r returned the sum of the first r + 1 vectors."""
    firsts = [vectors[: rank + 1] for rank in range(case.world_size)]
    expected = [total(first) for first in firsts]
    assert_values(result, expected, case, scales=[magnitude(first) for first in firsts])


def summed(ranks, rng, case, *, machine=None, members=None, world_size=None, seed=None):
    """Run on random vectors and check the values: whatever a test is about, they come first."""
    vectors = case.vectors(rng)
    result = ranks.call(
        case.target,
        world_size or case.world_size,
        case.arguments(vectors),
        machine=machine or buffered(),
        members=members,
        seed=seed,
    )
    check(result, vectors, case)
    return result


def seen(ranks, case):
    """The run of a case that all tests share which look at what was sent."""

    def run(rng):
        vectors = case.vectors(rng)
        arguments = case.arguments(vectors)
        return vectors, ranks.call(case.target, case.world_size, arguments, machine=buffered())

    vectors, result = ranks.once(f"{case.target}, {case}", run)
    check(result, vectors, case)
    return result


@points(14, "values")
def test_sums_on_1_2_and_4_ranks(ranks, rng):
    for world_size, n in ((2, 0), (2, 17), (4, 1), (4, 1003), (1, 5)):
        summed(ranks, rng, Case(TARGET, world_size, n))


@points(10, "values")
def test_sums_on_3_5_and_8_ranks(ranks, rng):
    for world_size, n in ((3, 2), (5, 203), (8, 8)):
        summed(ranks, rng, Case(TARGET, world_size, n))


@points(6, "values")
def test_dtype_is_kept_and_integers_are_exact(ranks, rng):
    for dtype in ("float32", "int64"):
        for world_size in (1, 3, 4):
            summed(ranks, rng, Case(TARGET, world_size, 13, dtype))


@points(5, "values")
def test_input_stays_as_it_was(ranks, rng):
    for case in (Case(TARGET, 4, 13), Case(TARGET, 1, 6)):
        assert_inputs_kept(summed(ranks, rng, case), case)


@points(5, "values")
def test_second_call_is_independent(ranks, rng):
    for case in (Case("callers:twice", p, 9) for p in (2, 5)):
        first, second = case.vectors(rng), case.vectors(rng)
        arguments = list(zip(first, second, strict=True))
        result = ranks.call(case.target, case.world_size, arguments, machine=buffered())
        assert_ran(result, case)
        for rank, (then, now, late) in enumerate(result.values):
            for what, value, vectors in (
                (f"rank {rank}'s first result", then, first),
                (f"rank {rank}'s first result, looked at after a second call,", now, first),
                (f"rank {rank}'s second result", late, second),
            ):
                part = vectors[: rank + 1]
                assert_array(value, total(part), magnitude(part), case, what)


@points(5, "reality")
def test_real_mpi(mpi, rng):
    cases = [Case(TARGET, p, n) for p in (4, 3) for n in (1, 503)]
    inputs = [case.vectors(rng) for case in cases]
    calls = [
        (case.target, case.world_size, case.arguments(vectors))
        for case, vectors in zip(cases, inputs, strict=True)
    ]
    for case, vectors, result in zip(cases, inputs, mpi.call_all(calls), strict=True):
        try:
            check(result, vectors, case)
        except Verdict as verdict:
            raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


@points(15, "communication")
def test_bytes_per_rank(ranks, rng):
    for case in SWEEP:
        result = seen(ranks, case)
        allowed = [case.nbytes] * case.world_size
        ranks.record(case, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, case)


@points(8, "communication")
def test_given_communicator_is_used(ranks, rng):
    for case, strangers in ((Case(TARGET, 3, 10), 2), (Case(TARGET, 4, 6), 0)):
        members, world_size = members_of_world(rng, case.world_size, strangers)
        result = contrasted(
            functools.partial(summed, ranks, rng, case),
            {"members": members, "world_size": world_size},
            case,
            f"right on COMM_WORLD, wrong on a communicator of its ranks {members}. There:",
        )
        assert_strangers_idle(result, members, case)


@points(7, "communication")
def test_only_point_to_point_calls(ranks, rng):
    for case in SWEEP:
        assert_own_messages(seen(ranks, case), case)


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    for case in SWEEP:
        result = with_waiting_sends(functools.partial(summed, ranks, rng, case), case)
        assert_requests_complete(result, case)


@points(5, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    for case in (Case(TARGET, 4, 21), Case(TARGET, 5, 3)):
        for seed in LATENCY_SEEDS:
            summed(ranks, rng, case, machine=rendezvous(), seed=seed)


@points(15, "speed")
def test_time_with_long_vectors(ranks, rng):
    machine = long_wire()
    for case in (Case(TARGET, 4, 1300), Case(TARGET, 7, 1250)):
        result = summed(ranks, rng, case, machine=machine)
        assert_own_messages(result, case)
        wire_s = machine.alpha_s + case.nbytes * machine.beta_s_per_byte
        assert_makespan(result, (case.world_size - 1) * wire_s, case)
