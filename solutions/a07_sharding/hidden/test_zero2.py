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
from ringside.checking.case_kinds import check_kinds
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
    """A backward pass with announced layers, and its values."""
    case, asked, result = ran(ranks, rng, p, widths, n, dtype, **options)
    seen = case.seen_in(result)
    for rank, value in enumerate(result.values):
        examples.assert_shard(value, asked, seen, rank)
    return case, result, asked


def ran(ranks, rng, p, widths, n=3, dtype="float64", **options):
    case, asked = drawn(rng, p, widths, n, dtype)
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", p)
    arguments = [asked.arguments(rank) for rank in range(p)]
    factors = Factors.drawn(rng)
    result = ranks.call("callers:zero2_backward", world_size, arguments, factors=factors, **options)
    assert_ran(result, case)
    return case, asked, result


# -- values ----------------------------------------------------------------------------------------


EQUAL = (6,) * 9  # 2, 3 and 4 ranks own whole layers
MIXED = (5, 4, 6, 3, 5, 4, 6, 3)  # on up to 5 ranks a layer has one owner, or two


@points(16, "values")
def test_shards_on_2_and_4_ranks(ranks, rng):
    for p in (2, 4):
        passed(ranks, rng, p, MIXED)
        passed(ranks, rng, p, EQUAL)


@points(12, "values")
def test_shards_on_3_and_5_ranks(ranks, rng):
    for p in (3, 5):
        passed(ranks, rng, p, MIXED)


@points(10, "values")
def test_layers_with_several_owners_and_owners_of_several_layers(ranks, rng):
    passed(ranks, rng, 8, (2, 12, 1, 1, 1, 1))
    passed(ranks, rng, 2, (1, 1, 1, 1, 1, 1, 9, 2))


@points(5, "values")
def test_more_ranks_than_elements(ranks, rng):
    passed(ranks, rng, 3, (1, 1))
    passed(ranks, rng, 9, (1, 2, 1))


@points(3, "values")
def test_float32(ranks, rng):
    passed(ranks, rng, 4, EQUAL)
    passed(ranks, rng, 4, EQUAL, dtype="float32")


@points(4, "reality")
def test_real_mpi(mpi, ranks, rng):
    passed(ranks, rng, 2, (5, 4, 3))
    case, asked = drawn(rng, 4, EQUAL)
    arguments = [asked.arguments(rank) for rank in range(4)]
    (result,) = mpi.call_all([("callers:zero2_backward", 4, arguments)])
    try:
        assert_ran(result, case)
        for rank, value in enumerate(result.values):
            examples.assert_shard(value, asked, case, rank)
    except Verdict as verdict:
        raise Verdict(f"under mpiexec: {verdict.sentence}", detail=verdict.detail) from None


# -- communication, schedule, memory ---------------------------------------------------------------


@points(14, "communication")
def test_bytes_per_rank(ranks, rng):
    def check(each):
        p, widths = each
        case, result, asked = passed(ranks, rng, p, widths)
        allowed = oracle.backward_bytes(asked.shard_size, p, 8)
        ranks.record(case, result, {"bytes": allowed})
        assert_moved(result, allowed, case)

    tried = [
        (2, EQUAL), (4, EQUAL), (4, (100,) * 5), (16, (15,) * 3),
        (3, MIXED), (5, (8, 7, 6, 5)), (12, (8, 7, 6, 5)), (18, (8, 7, 6)),
    ]  # fmt: skip
    check_kinds(tried, by_owners, check, weights={"layers of whole shards": 2.0})


def by_owners(each):
    return "layers of whole shards" if each[0] in (2, 4, 16) else "other layers"


@points(14, "schedule", essential=True)
def test_gradients_leave_before_the_next_layer(ranks, rng):
    """Its first part asks whether layers are sent one by one at all, whatever the values are."""

    def check(p):
        if p is None:
            case, asked, result = ran(ranks, rng, 4, EQUAL)
            examples.assert_sent_early(result, asked, case)
            return
        case, result, asked = passed(ranks, rng, p, EQUAL)
        assert_declared_at_once(result, case)
        examples.assert_sent_at_once(result, asked, case)

    kinds = "sending layer by layer", "sending before the next layer"
    check_kinds([None, 2, 4], lambda p: kinds[p is not None], check)


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    on_three_members(rng, functools.partial(passed, ranks, rng, 3, EQUAL))


@points(8, "memory")
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
        case, result, _ = passed(ranks, rng, 4, EQUAL, **options)
        kinds = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]
        assert_requests_complete(result, case, kinds)

    with_waiting_sends(run, drawn(rng, 4, EQUAL)[0])
    for seed in LATENCY_SEEDS:
        run(machine=rendezvous(), seed=seed)
