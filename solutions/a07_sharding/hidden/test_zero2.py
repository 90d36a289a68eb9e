"""zero2.py: each layer's gradient goes to its owners before the next layer's is computed."""

import functools

from ringside.checking import (
    LATENCY_SEEDS,
    Case,
    Verdict,
    assert_declared_at_once,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    buffered,
    on_three_members,
    rendezvous,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from ringside.factors import Factors
from ringside.trace import Kind
from solutions.a07_sharding.hidden import oracle
from solutions.a07_sharding.hidden.oracle import examples

points = points_of("zero2")


def drawn(rng, p, widths, n=3, dtype="float64", driver="zero2_backward"):
    """The case, and a backward pass as its line makes it."""
    options = {"widths": ",".join(map(str, widths))}
    case = Case("zero2:backward", p, n, dtype, options).called_by(f"callers:{driver}")
    case.drawn.append(int(rng.integers(2**31)))
    return case, examples.Pass(p, n, widths, dtype, case.drawn[0])


def passed(ranks, rng, p, widths, n=3, dtype="float64", **options):
    """A backward pass with announced layers: its values, and that gradients leave one by one.

    Whatever a test is about, a reduction after all layers earns nothing.
    """
    case, asked = drawn(rng, p, widths, n, dtype)
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", p)
    arguments = [asked.arguments(rank) for rank in range(p)]
    factors = Factors.drawn(rng)
    result = ranks.call("callers:zero2_backward", world_size, arguments, factors=factors, **options)
    assert_ran(result, case)
    seen = case.seen_in(result)
    for rank, value in enumerate(result.values):
        examples.assert_shard(value, asked, seen, rank)
    assert_declared_at_once(result, case)
    examples.assert_sent_at_once(result, asked, case)
    return case, result, asked


# -- values ----------------------------------------------------------------------------------------


@points(16, "values")
def test_shards_on_2_and_4_ranks(ranks, rng):
    for p in (2, 4):
        passed(ranks, rng, p, (5, 4, 6, 3))
        passed(ranks, rng, p, (3, 3))


@points(12, "values")
def test_shards_on_3_5_and_7_ranks(ranks, rng):
    for p in (3, 5, 7):
        passed(ranks, rng, p, (5, 4, 6, 3))


@points(8, "values")
def test_layers_with_several_owners_and_owners_of_several_layers(ranks, rng):
    passed(ranks, rng, 8, (2, 12, 1, 1, 1, 1))
    passed(ranks, rng, 2, (1, 1, 1, 1, 1, 1, 9, 2))


@points(5, "values")
def test_more_ranks_than_elements(ranks, rng):
    passed(ranks, rng, 3, (1, 1))
    passed(ranks, rng, 9, (1, 2, 1))


@points(3, "values")
def test_float32(ranks, rng):
    passed(ranks, rng, 3, (5, 4, 6), dtype="float32")


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    passed(ranks, rng, 2, (5, 4, 3))
    case, asked = drawn(rng, 3, (5, 4, 6, 3))
    arguments = [asked.arguments(rank) for rank in range(3)]
    (result,) = mpi.call_all([("callers:zero2_backward", 3, arguments)])
    try:
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_shard(value, asked, case, rank)
    except Verdict as verdict:
        raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


# -- communication, schedule, memory ---------------------------------------------------------------


@points(16, "communication")
def test_bytes_per_rank(ranks, rng):
    for p, widths in (
        (2, (6, 5, 4)), (3, (6, 5, 4)), (5, (8, 7, 6, 5)), (12, (8, 7, 6, 5)), (18, (8, 7, 6)),
        (4, (100, 90, 80)),
    ):  # fmt: skip
        case, result, asked = passed(ranks, rng, p, widths)
        allowed = oracle.backward_bytes(asked.shard_size, p, 8)
        ranks.record(case, result, {"bytes": allowed})
        assert_moved(result, allowed, case)


@points(10, "schedule")
def test_gradients_leave_before_the_next_layer(ranks, rng):
    for p in (2, 4):
        passed(ranks, rng, p, (6,) * 9)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(passed, ranks, rng, 3, (5, 4, 6, 3)))


@points(12, "memory")
def test_no_rank_holds_the_whole_gradient(ranks, rng):
    passed(ranks, rng, 2, (5, 4, 3))
    widths = (60,) * 13
    case, asked = drawn(rng, 4, widths, driver="zero2_memory")
    arguments = [asked.arguments(rank) for rank in range(4)]
    result = ranks.call("callers:zero2_memory", 4, arguments, machine=buffered())
    assert_ran(result, case)
    for rank, value in enumerate(result.values):
        examples.assert_shard(value, asked, case.seen_in(result), rank)
        examples.assert_held(value, asked, case.seen_in(result), rank)


# -- safety ----------------------------------------------------------------------------------------


@points(10, "safety")
def test_messages_may_wait_and_come_in_any_order(ranks, rng):
    def run(**options):
        case, result, _ = passed(ranks, rng, 4, (5, 4, 6, 3), **options)
        kinds = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]
        assert_requests_complete(result, case, kinds)

    with_waiting_sends(run, drawn(rng, 4, (5, 4, 6, 3))[0])
    for seed in LATENCY_SEEDS:
        run(machine=rendezvous(), seed=seed)
