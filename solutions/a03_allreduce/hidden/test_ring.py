"""ring.py: neighbours only, shard by shard."""

from functools import partial

from ringside.checking import (
    Case,
    assert_bytes,
    assert_inputs_kept,
    assert_messages,
    assert_own_messages,
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
    assert_own_messages(result, case)
    return result


def halves(target):
    """Cases of a half that tests share."""
    more = ((4, 40), (5, 23), (6, 5003), (7, 11))
    return [Case(target, p, n) for p, n in more] + runs.sweep(target, None, (2, 3, 5, 8))


def check_half(ranks, rng, target):
    """The values of a half, on all numbers of ranks and for all lengths."""
    for case in halves(target):
        shared_half(ranks, case)
    for world_size, sizes in (
        (1, (0, 1, 13)),
        (2, (0, 3)),
        (3, (4,)),
        (4, (0, 3, 4, 5)),
        (7, (3,)),
    ):
        for n in sizes:
            half(ranks, rng, Case(target, world_size, n))


def neighbours(world_size):
    return [{(r - 1) % world_size, (r + 1) % world_size} for r in range(world_size)]


@points(9, "values")
def test_reduce_scatter_gives_rank_r_shard_r(ranks, rng):
    check_half(ranks, rng, SCATTER)


@points(7, "values")
def test_all_gather_puts_shards_in_order(ranks, rng):
    check_half(ranks, rng, GATHER)


test_sum_on_2_4_and_8_ranks = shared.sums(5, runs.POWERS_OF_TWO)
test_sum_on_3_5_6_and_7_ranks = shared.sums(5, runs.OTHER_SIZES)


@points(5, "values")
def test_dtype_is_kept_and_integers_are_exact(ranks, rng):
    runs.check_dtypes(ranks, rng, TARGET)
    for world_size in (1, 2, 5):
        for dtype in ("float32", "int64"):
            half(ranks, rng, Case(SCATTER, world_size, 13, dtype))
            half(ranks, rng, Case(GATHER, world_size, 13, dtype))


@points(3, "values")
def test_strided_and_read_only_input(ranks, rng):
    runs.check_strided(ranks, rng, runs.assorted(TARGET, (1, 2, 5), (11,)), runs.summed)
    runs.check_strided(ranks, rng, runs.assorted(SCATTER, (1, 4), (11,)), scattered)
    runs.check_strided(ranks, rng, runs.assorted(GATHER, (1, 4), (11,)), gathered)


@points(3, "values")
def test_input_stays_as_it_was(ranks, rng):
    runs.check_inputs_kept(ranks, rng, runs.assorted(TARGET, (1, 2, 4, 5), (13,)))
    for target in (SCATTER, GATHER):
        for case in runs.assorted(target, (1, 4, 5), (13,)):
            assert_inputs_kept(half(ranks, rng, case), case)


@points(3, "values")
def test_second_call_is_independent(ranks, rng):
    runs.check_second_call(ranks, rng, runs.assorted(TARGET, (1, 2, 4, 5), (9, 0)))
    runs.check_second_call(ranks, rng, runs.assorted(SCATTER, (1, 4), (9,)), scattered)
    runs.check_second_call(ranks, rng, runs.assorted(GATHER, (1, 4), (9,)), gathered)


test_real_mpi = shared.real_mpi(5)


@points(10, "communication")
def test_bytes_per_rank(ranks, rng):
    sizes = ((4, 64), (5, 203), (8, 9), (2, 7), (6, 5003))
    cases = [Case(TARGET, p, n) for p, n in sizes] + runs.everywhere(TARGET)
    for case in cases:
        result = runs.seen(ranks, case)
        allowed = oracle.ring_bytes(case, rounds=2)
        ranks.record(case, result, {"sent_bytes": allowed})
        assert_bytes(result, allowed, case)
        assert_messages(result, [128 * (case.world_size - 1)] * case.world_size, case)


@points(5, "communication")
def test_bytes_of_each_half(ranks, rng):
    for target in (SCATTER, GATHER):
        for case in halves(target):
            assert_bytes(seen_half(ranks, case), oracle.ring_bytes(case, rounds=1), case)


@points(7, "communication")
def test_messages_go_to_neighbours_only(ranks, rng):
    rule = "a rank talks to its two neighbours only"
    for case in (Case(TARGET, 5, 203), Case(TARGET, 6, 5003), *runs.everywhere(TARGET)):
        assert_peers(runs.seen(ranks, case), neighbours(case.world_size), case, rule)
    for target in (SCATTER, GATHER):
        for case in halves(target):
            assert_peers(seen_half(ranks, case), neighbours(case.world_size), case, rule)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    runs.check_given_communicator(ranks, rng, runs.of_each_dtype(TARGET))
    for target in (SCATTER, GATHER):
        cases = [Case(target, 3, 11), Case(target, 4, 203), Case(target, 4, 8)]
        runs.check_given_communicator(ranks, rng, cases, half)


@points(4, "communication")
def test_only_point_to_point_calls(ranks, rng):
    runs.check_point_to_point(
        ranks, rng, [Case(TARGET, 1, 10), Case(TARGET, 3, 0), *runs.everywhere(TARGET)]
    )
    for target in (SCATTER, GATHER):
        for case in (Case(target, 1, 11), *halves(target)):
            seen_half(ranks, case)


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
        runs.check_any_order(ranks, rng, [Case(target, 4, 21), Case(target, 5, 40)], half)


@points(10, "speed")
def test_time_with_long_vectors(ranks, rng):
    cases = [Case(TARGET, p, 1250 * p) for p in (7, 8, 12, 33)]
    bound_s = partial(oracle.seconds, "ring")
    runs.check_makespans(ranks, rng, cases, long_wire(), bound_s)


@points(5, "speed")
def test_time_with_short_vectors(ranks, rng):
    cases = [Case(TARGET, p, 4 * p) for p in (5, 8, 12, 33)]
    bound_s = partial(oracle.seconds, "ring")
    runs.check_makespans(ranks, rng, cases, short_wire(), bound_s, full=2.5, half=4)
