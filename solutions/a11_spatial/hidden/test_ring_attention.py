"""ring_attention.py: values of the whole softmax, a ring of blocks, and transfers under way."""

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_bytes,
    assert_declared_at_once,
    assert_inputs_kept,
    assert_makespan,
    assert_messages,
    assert_own_messages,
    assert_ran,
    assert_requests_complete,
    buffered,
    members_of_world,
    on_members,
    with_waiting_sends,
)
from ringside.checking.points import points_of
from ringside.factors import Factors
from solutions.a11_spatial.cases import (
    RING_ATTENTION_REFUSALS,
    ring_attention_case,
    ring_attention_refusal,
)
from solutions.a11_spatial.hidden.oracle import examples
from solutions.a11_spatial.hidden.parts import checked

points = points_of("ring_attention")


def attended(ranks, case, *, observed=None, **options):
    """``attention`` on all ranks; checks values, and that the ranks' own messages made them.

    Args:
        observed: a generator: blocks are announced, and their queries scaled.
    """
    options.setdefault("machine", buffered())
    world_size = options.pop("world_size", case.world_size)
    if observed is not None:
        options["factors"] = Factors.drawn(observed)
    result = ranks.call(
        "ring_attention:attention", world_size, case.arguments_of_ranks(), **options
    )
    check(result, case)
    if not result.collectives or any(each.nbytes for each in result.collectives):
        assert_own_messages(result, case)
    return result


def check(result, case):
    """Each rank's part is that of the whole softmax."""
    assert_ran(result, case)
    factors = getattr(result, "factors", None)
    wanted = examples.ring_attention_serial(list(case.lengths), case.causal, case.inputs(), factors)
    for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
        examples.assert_near(value, right, case.seen_in(result), f"rank {rank}'s result")


# -- values ----------------------------------------------------------------------------------------


@points(9, "values")
def test_attention_on_2_to_5_ranks(ranks, rng):
    for p, n, batch, heads in ((2, 4, 1, 2), (3, 5, 2, 1), (4, 3, 1, 3), (5, 4, 2, 2)):
        attended(ranks, ring_attention_case([n] * p, rng, batch=batch, heads=heads, width=5))


@points(9, "values")
def test_causal(ranks, rng):
    def equal():
        for p, n, batch in ((2, 4, 1), (3, 5, 2), (4, 3, 1), (5, 4, 1)):
            attended(ranks, ring_attention_case([n] * p, rng, batch=batch, causal=True))

    def uneven():
        for lengths in UNEVEN:
            attended(ranks, ring_attention_case(lengths, rng, causal=True))

    checked({"equal parts": equal, "parts that differ": uneven}, {"equal parts": 2})


@points(8, "values")
def test_scores_of_thousands(ranks, rng):
    for p, n in ((2, 5), (3, 4), (5, 3)):
        attended(ranks, ring_attention_case([n] * p, rng, batch=2, kind="thousands"))


@points(5, "values")
def test_uneven_parts(ranks, rng):
    for lengths in UNEVEN:
        attended(ranks, ring_attention_case(lengths, rng))


UNEVEN = ((3, 5), (4, 1, 6), (2, 7, 1, 3))


@points(7, "values")
def test_fewer_kv_heads(ranks, rng):
    def results():
        for p, heads, kv_heads in ((2, 4, 2), (3, 6, 2), (4, 3, 1)):
            attended(ranks, ring_attention_case([3] * p, rng, heads=heads, kv_heads=kv_heads))

    def nbytes():
        for p, heads, kv_heads in ((3, 4, 1), (4, 6, 3)):
            case = ring_attention_case([4] * p, rng, heads=heads, kv_heads=kv_heads)
            assert_bytes(attended(ranks, case), [case.allowed_bytes] * p, case)

    checked({"results": results, "bytes": nbytes})


@points(6, "values")
def test_float32_nan_short_parts_and_wrong_arguments(ranks, rng):
    def attend(some):
        for lengths, options in some:
            attended(ranks, ring_attention_case(lengths, rng, **options))

    def refused():
        attend([([2, 2], {})])
        for what in RING_ATTENTION_REFUSALS:
            case = ring_attention_refusal(what)
            result = ranks.call("callers:ring_attention_refused", 2, (what,))
            assert_ran(result, case)
            for rank, value in enumerate(result.values):
                examples.assert_ring_attention_refused(value, rank, case)
            assert_messages(result, [0, 0], case)

    checked(
        {
            "float32": lambda: attend([([4] * p, {"dtype": "float32"}) for p in (2, 4)]),
            "a key that is not a number": lambda: attend([([3] * 4, {"nan_of": 2})]),
            "one position or one rank": lambda: attend([((1, 1, 1), {}), ((1, 1), {}), ((5,), {})]),
            "arguments that are refused": refused,
        }
    )


@points(3, "values")
def test_inputs_stay_and_results_are_new(ranks, rng):
    for p in (2, 3):
        case = ring_attention_case([3] * p, rng)
        assert_inputs_kept(attended(ranks, case), case)
        given = case.arguments_of_ranks()
        result = ranks.call("callers:ring_attention_looked_at", p, given, machine=buffered())
        case = case.looked_at()
        assert_ran(result, case)
        wanted = examples.ring_attention_serial(list(case.lengths), False, case.inputs())
        for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
            compare, seen = examples.assert_near, case.seen_in(result)
            examples.assert_looked_at(value, right, compare, seen, rank, "result")


@points(2, "reality")
def test_real_mpi(mpi, ranks, rng):
    cases = [ring_attention_case([n] * 3, rng) for n in (4, 2)]
    for case in cases:
        attended(ranks, case)
    jobs = [(case.target, case.world_size, case.arguments_of_ranks()) for case in cases]
    for case, result in zip(cases, mpi.call_all(jobs), strict=True):
        try:
            check(result, case)
        except Verdict as verdict:
            raise Verdict(
                f"under mpiexec: {verdict.sentence}",
                reproduce=case.real_line,
                detail=verdict.detail,
            ) from None


# -- communication and schedule --------------------------------------------------------------------


@points(4, "communication", essential=True)
def test_each_rank_computes_with_its_own_queries(ranks, rng):
    case = ring_attention_case([4] * 4, rng)
    given, factors = case.arguments_of_ranks(), Factors.drawn(rng)
    result = ranks.call(case.target, 4, given, machine=buffered(), factors=factors)
    assert_ran(result, case)
    examples.assert_ring_attention_shared(result, case)


@points(12, "communication")
def test_keys_and_values_are_sent_once_round_a_ring(ranks, rng):
    def nbytes():
        for p, n, width in ((2, 4, 4), (3, 4, 4), (4, 3, 4), (5, 3, 4), (12, 2, 4), (18, 1, 4),
                            (3, 64, 40)):  # fmt: skip
            case = ring_attention_case([n] * p, rng, width=width)
            result = attended(ranks, case)
            bounds = [case.allowed_bytes] * p
            ranks.record(case, result, {"sent_bytes": bounds})
            assert_bytes(result, bounds, case)

    def peers():
        for p in (4, 5, 9):
            case = ring_attention_case([3] * p, rng)
            result = attended(ranks, case)
            assert_own_messages(result, case)
            examples.assert_ring_attention_peers(result, case)

    checked({"bytes": nbytes, "peers": peers}, {"peers": 2})


@points(4, "communication")
def test_given_communicator_is_used(ranks, rng):
    case = ring_attention_case([3] * 4, rng)
    members = members_of_world(rng, 4)
    on_members(lambda **there: attended(ranks, case, **there), *members, case)


@points(9, "schedule")
def test_the_next_block_travels_while_one_is_computed(ranks, rng):
    for p in (3, 4, 7):
        case = ring_attention_case([3] * p, rng)
        result = attended(ranks, case, observed=rng)
        examples.assert_ring_attention_overlap(result, case, case.block_nbytes)


@points(7, "memory")
def test_no_rank_makes_room_for_all_keys(ranks, rng):
    def in_order():
        for p in (6, 9):
            case = ring_attention_case([2] * p, rng)
            result = attended(ranks, case, observed=rng)
            examples.assert_ring_attention_room(result, case, case.block_nbytes)

    checked({"messages": in_order, "memory": lambda: memory_of_16_ranks(ranks, rng)})


def memory_of_16_ranks(ranks, rng):
    """What the ranks allocated."""
    attended(ranks, ring_attention_case([2] * 6, rng), observed=rng)
    case = ring_attention_case([16] * 16, rng, heads=1, width=256)
    bound = ring_attention_bound(case)
    result = ranks.call("callers:ring_attention_held", 16, case.arguments_of_ranks())
    case = case.called_through("ring_attention_held", f" --bound {bound}")
    assert_ran(result, case)
    wanted = examples.ring_attention_serial(list(case.lengths), False, case.inputs())
    for rank, (value, right) in enumerate(zip(result.values, wanted, strict=True)):
        examples.assert_ring_attention_held(value, right, bound, case.seen_in(result), rank)


def ring_attention_bound(case):
    """Bytes that a rank may have at a time, by the docstring."""
    n, rows = case.lengths[0], case.batch * case.heads
    itemsize = np.dtype(case.dtype).itemsize
    arrays = 8 * rows * n * case.width + 8 * rows * n * n
    return 4 * case.block_nbytes + arrays * itemsize + (64 << 10)


# -- safety ----------------------------------------------------------------------------------------


@points(8, "safety")
def test_sends_may_wait_and_all_is_completed(ranks, rng):
    def waiting():
        for p in (2, 3, 5, 8):
            case = ring_attention_case([3] * p, rng)
            with_waiting_sends(lambda case=case, **there: attended(ranks, case, **there), case)

    def slow():
        for seed in LATENCY_SEEDS:
            case = ring_attention_case([2] * 6, rng)
            assert_requests_complete(attended(ranks, case, seed=seed), case)

    checked({"sends that wait": waiting, "messages in any order": slow}, {"sends that wait": 2})


# -- speed -----------------------------------------------------------------------------------------


def timed(ranks, rng, p, n, machine):
    """A run whose blocks are announced, against blocks and messages side by side."""
    case = ring_attention_case([n] * p, rng, width=8)
    result = attended(ranks, case, observed=rng, machine=machine)
    assert_declared_at_once(result, case)
    block_s = machine.compute_s(4 * case.heads * n * n * case.width, 0)
    message_s = machine.alpha_s + case.block_nbytes * machine.beta_s_per_byte
    assert_makespan(result, block_s + (p - 1) * max(block_s, message_s), case)


@points(7, "speed")
def test_blocks_and_messages_hide_behind_each_other(ranks, rng):
    machine = Machine("quick wire", alpha_s=5e-7, beta_s_per_byte=1e-9, flop_per_s=1e9)

    def long_blocks():  # 8 positions a rank: a block takes 4.1 us, and its keys and values 2.5 us
        for p in (4, 8):
            timed(ranks, rng, p, 8, machine)

    def long_messages():  # 4 positions a rank: a block takes 1.0 us, and its keys and values 1.5 us
        for p in (5, 32):
            timed(ranks, rng, p, 4, machine)

    checked({"long blocks": long_blocks, "long messages": long_messages})
