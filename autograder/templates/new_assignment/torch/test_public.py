"""Public tests: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators.
"""

from ringside.checking import (
    Case,
    assert_array,
    assert_bytes,
    assert_makespan,
    assert_own_messages,
    assert_ran,
    assert_requests_complete,
    assert_values,
    buffered,
    long_wire,
    magnitude,
    rendezvous,
    total,
)
from ringside.checking.points import points_of

TARGET = "callers_torch:prefix_sum"

points = points_of("prefix_torch")


def run(ranks, rng, case, **options):
    """Call on random vectors, and check the sum on every rank."""
    vectors = case.vectors(rng)
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    result = ranks.call(case.target, world_size, case.arguments(vectors), **options)
    parts = [vectors[: rank + 1] for rank in range(case.world_size)]
    assert_values(result, [total(p) for p in parts], case, scales=[magnitude(p) for p in parts])
    return result


@points(25, "values")
def test_sums_on_one_three_and_four_ranks(ranks, rng):
    for world_size, n in ((4, 8), (3, 11), (1, 5), (4, 0)):
        run(ranks, rng, Case(TARGET, world_size, n))


@points(10, "values")
def test_dtype_is_kept(ranks, rng):
    for dtype in ("float32", "int64"):
        run(ranks, rng, Case(TARGET, 3, 7, dtype))


@points(10, "values")
def test_second_call_is_independent(ranks, rng):
    case = Case(TARGET, 3, 6)
    first, second = case.vectors(rng), case.vectors(rng)
    result = ranks.call("callers_torch:twice", 3, list(zip(first, second, strict=True)))
    assert_ran(result, case)
    for rank, (then, now, late) in enumerate(result.values):
        for what, value, vectors in (
            (f"rank {rank}'s first x", then, first),
            (f"rank {rank}'s first x, after the second call,", now, first),
            (f"rank {rank}'s second x", late, second),
        ):
            part = vectors[: rank + 1]
            assert_array(value, total(part), magnitude(part), case, what)


@points(20, "communication")
def test_bytes(ranks, rng):
    case = Case(TARGET, 4, 10)
    result = run(ranks, rng, case)
    assert_own_messages(result, case)
    allowed = [case.nbytes] * 4
    ranks.record(case, result, {"sent_bytes": allowed})
    assert_bytes(result, allowed, case)


@points(15, "communication")
def test_given_group_is_used(ranks, rng):
    # Rank 0 of the world is not in group.
    run(ranks, rng, Case(TARGET, 3, 5), members=[3, 1, 2], world_size=4)


@points(10, "safety")
def test_sends_may_wait_for_their_receives(ranks, rng):
    case = Case(TARGET, 4, 9)
    assert_requests_complete(run(ranks, rng, case, machine=rendezvous()), case)


@points(10, "speed")
def test_time_with_long_vectors(ranks, rng):
    case, machine = Case(TARGET, 5, 1250), long_wire()
    result = run(ranks, rng, case, machine=machine)
    bound_s = 4 * (machine.alpha_s + case.nbytes * machine.beta_s_per_byte)
    assert_makespan(result, bound_s, case)
