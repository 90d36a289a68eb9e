"""ring.py: neighbours only, shard by shard."""

from functools import partial

from ringside.checking import (
    Case,
    assert_bytes,
    assert_messages,
    assert_peers,
    assert_values,
    buffered,
    long_wire,
    magnitude,
    short_wire,
    total,
)
from solutions.a03_allreduce.hidden import oracle, runs
from solutions.a03_allreduce.hidden.shared_tests import SharedTests
from solutions.a03_allreduce.shards import shard_bounds

TARGET = "ring:all_reduce"
SCATTER = "ring:reduce_scatter"
GATHER = "ring:all_gather"

shared = SharedTests("ring", [TARGET])
points = shared.points


def cut(array, world_size):
    """One shard per rank."""
    bounds = [shard_bounds(len(array), world_size, rank) for rank in range(world_size)]
    return [array[lo:hi].copy() for lo, hi in bounds]


def scattered(case, vectors):
    """Arguments, expected results and scales of a reduce-scatter."""
    whole, scale = total(vectors), magnitude(vectors)
    return case.arguments(vectors), cut(whole, case.world_size), cut(scale, case.world_size)


def gathered(case, vectors):
    """Arguments, expected results and scales of an all-gather of the first vector's shards."""
    whole, ranks = vectors[0], case.world_size
    arguments = [(shard, case.n) for shard in cut(whole, ranks)]
    return arguments, [whole] * ranks, [abs(whole.astype("float64"))] * ranks


def half(ranks, rng, case, *, machine=None, world_size=None, **where):
    """Run a reduce-scatter or an all-gather and check its values; returns the result."""
    prepare = scattered if case.target == SCATTER else gathered
    arguments, expected, scales = prepare(case, case.vectors(rng))
    result = ranks.call(
        case.target,
        world_size or case.world_size,
        arguments,
        machine=machine or buffered(),
        **where,
    )
    assert_values(result, expected, case, scales=scales)
    return result


def shared_half(ranks, case):
    """The run of a half that tests share, its values checked."""
    prepare = scattered if case.target == SCATTER else gathered

    def run(rng):
        arguments, *right = prepare(case, case.vectors(rng))
        result = ranks.call(case.target, case.world_size, arguments, machine=buffered())
        return case.drawn, right, result

    drawn, (expected, scales), result = ranks.once(f"{case.target}, {case}", run)
    case.drawn[:] = drawn
    assert_values(result, expected, case, scales=scales)
    return result


def seen_half(ranks, case):
    """The shared run of a half, for a test that looks at what was sent."""
    result = shared_half(ranks, case)
    runs.assert_own_data(result, case)
    return result


def halves(target):
    """Cases of a half that tests share."""
    more = ((4, 40), (5, 23), (6, 5004))
    return [Case(target, p, n) for p, n in more] + runs.sweep(target, None, (2, 3, 8))


def check_half(ranks, rng, target):
    """The values of a half, on all numbers of ranks and for all lengths."""
    sizes = ((1, 0), (1, 13), (2, 0), (2, 3), (3, 4), (4, 0), (4, 3), (4, 4), (4, 5), (7, 3))
    more = [Case(target, *each) for each in sizes]
    runs.check_each(halves(target), lambda case: shared_half(ranks, case))
    runs.check_each(more, lambda case: half(ranks, rng, case))


def neighbours(world_size):
    return [{(r - 1) % world_size, (r + 1) % world_size} for r in range(world_size)]


@points(6, "communication", essential=True)
def test_data_goes_round_the_ring(ranks, rng):
    cases = [Case(target, 4, 40) for target in (SCATTER, GATHER, TARGET)]
    runs.check_scheme(ranks, rng, cases)


@points(9, "values")
def test_reduce_scatter_gives_rank_r_shard_r(ranks, rng):
    check_half(ranks, rng, SCATTER)


@points(8, "values")
def test_all_gather_puts_shards_in_order(ranks, rng):
    check_half(ranks, rng, GATHER)


test_sum_on_2_4_and_8_ranks = shared.sums(5, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(5, runs.OTHER_SIZES)


@points(5, "values")
def test_dtype_is_kept_and_integers_are_exact(ranks, rng):
    runs.check_dtypes(ranks, rng, TARGET)
    cases = [
        Case(target, p, n, dtype)
        for target in (SCATTER, GATHER)
        for p, n in ((1, 13), (2, 8), (2, 13), (3, 13))
        for dtype in ("float32", "int64")
    ]
    runs.check_each(cases, lambda case: half(ranks, rng, case))


@points(5, "values")
def test_inputs_may_have_gaps_and_stay_as_they_were(ranks, rng):
    runs.check_strided(ranks, rng, runs.assorted(TARGET, (1, 2, 3), (11,)), runs.summed)
    runs.check_strided(ranks, rng, runs.assorted(SCATTER, (1, 4), (11,)), scattered)
    runs.check_strided(ranks, rng, runs.assorted(GATHER, (1, 4), (11,)), gathered)
    runs.check_inputs_kept(ranks, rng, runs.assorted(TARGET, (1, 4, 3), (13,)))
    for target in (SCATTER, GATHER):
        runs.check_inputs_kept(ranks, rng, runs.assorted(target, (1, 4, 3), (13,)), half)


@points(4, "values")
def test_second_call_is_independent(ranks, rng):
    runs.check_second_call(ranks, rng, runs.assorted(TARGET, (1, 2, 4, 3), (9, 0)))
    runs.check_second_call(ranks, rng, runs.assorted(SCATTER, (1, 4), (9,)), scattered)
    runs.check_second_call(ranks, rng, runs.assorted(GATHER, (1, 4), (9,)), gathered)


test_real_mpi = shared.real_mpi(4)


@points(12, "communication")
def test_bytes_per_rank(ranks, rng):
    def check(case):
        result = runs.seen(ranks, case)
        allowed = oracle.ring_bytes(case, rounds=2)
        ranks.record(case, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, case)
        assert_messages(result, [128 * (case.world_size - 1)] * case.world_size, case)

    def check_half_of_it(case):
        assert_bytes(seen_half(ranks, case), oracle.ring_bytes(case, rounds=1), case)

    sizes = ((4, 64), (5, 203), (8, 9), (6, 5003))
    runs.check_each([Case(TARGET, p, n) for p, n in sizes] + runs.everywhere(TARGET), check)
    for target in (SCATTER, GATHER):
        runs.check_each(halves(target), check_half_of_it)


@points(6, "communication")
def test_messages_go_to_neighbours_only(ranks, rng):
    rule = "a rank talks to its two neighbours only"

    def check(case):
        looked_at = runs.seen if case.target == TARGET else seen_half
        assert_peers(looked_at(ranks, case), neighbours(case.world_size), case, rule)

    more = [Case(TARGET, 5, 203), Case(TARGET, 6, 5003)]
    runs.check_each(more + runs.everywhere(TARGET), check)
    runs.check_each(halves(SCATTER) + halves(GATHER), check)


@points(5, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, rng, runs.of_each_dtype(TARGET))
    for target in (SCATTER, GATHER):
        cases = [Case(target, 3, 11), Case(target, 4, 203), Case(target, 4, 8)]
        runs.check_given_communicator(ranks, rng, cases, half)


@points(4, "communication")
def test_only_point_to_point_calls(ranks, rng):
    cases = [Case(TARGET, 1, 10), Case(TARGET, 3, 0), *runs.everywhere(TARGET)]
    runs.check_point_to_point(ranks, rng, cases)
    for target in (SCATTER, GATHER):
        runs.check_point_to_point(ranks, rng, halves(target), shared_half)


@points(5, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    runs.check_rendezvous(ranks, rng, runs.slow(TARGET))
    for target in (SCATTER, GATHER):
        cases = [Case(target, p, n) for p in (2, 3, 4, 5) for n in (2, 40)]
        runs.check_rendezvous(ranks, rng, cases, half)


@points(5, "safety")
def test_messages_may_arrive_in_any_order(ranks, rng):
    runs.check_any_order(ranks, rng, runs.shuffled(TARGET))
    for target in (SCATTER, GATHER):
        runs.check_any_order(ranks, rng, [Case(target, 4, 20), Case(target, 5, 40)], half)


@points(9, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250 * p) for p in (7, 8, 12, 32)]
    bound_s = partial(oracle.seconds, "ring")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)


@points(3, "speed")
def test_time_with_short_vectors(ranks, rng):
    cases = [Case(TARGET, p, 4 * p) for p in (5, 8, 12, 32)]
    bound_s = partial(oracle.seconds, "ring")
    runs.check_makespans(ranks, rng, cases, short_wire(), bound_s, full=2.5, half=4)
