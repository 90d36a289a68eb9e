"""Public tests of the assignment: run them with ``ringside check``, or ``pytest``.

The hidden suite asks the same kinds of questions, with other sizes, world sizes, values, machines
and communicators. The oracle is attention over the whole sequence on one rank.
"""

import ring_cases_torch as ring_cases
import ring_observed_torch as ring_observed

from ringside.checking import (
    LATENCY_SEEDS,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points
from ringside.factors import Factors

# -- ring_attention_torch --------------------------------------------------------------------------


def ring_torch_called(ranks, rng, case, *, ordered=True, **where):
    """A run whose values are right, through own messages to neighbours."""
    call = ring_cases.attention_call(case)
    sample = ring_cases.sample_attention(rng, case)
    target = ring_cases.ZIGZAG if case.zigzag else ring_cases.RING
    rest = (None, False) if case.zigzag else (list(case.lengths), case.causal)
    arguments = [
        (target, [parts[rank] for parts in sample], *rest, case.how)
        for rank in range(case.world_size)
    ]
    if ordered:
        where["factors"] = Factors.drawn(rng)
    world_size = where.pop("world_size", case.world_size)
    result = ranks.call("ring_callers_torch:attention", world_size, arguments, **where)
    assert_ran(result, call)
    call = call.seen_in(result)
    wanted = [ring_cases.serial(case, parts, result.factors) for parts in sample]
    for rank, value in enumerate(result.values):
        ring_cases.check_attention(value, wanted, case, call, rank)
        if value["changed"]:
            raise call.fail(f"rank {rank} changed a tensor that it was given.")
    if "members" not in where:
        ring_observed.assert_ring(result, call)
    if ordered and not case.causal and len(set(case.lengths)) == 1:
        ring_observed.assert_early(result, call, case)
    return call, result, case


def ring_torch(ranks, rng, lengths, *, ordered=True, where=None, **settings):
    case = ring_cases.Attention(tuple(lengths), **settings)
    return ring_torch_called(ranks, rng, case, ordered=ordered, **(where or {}))


@points(20, "values", "ring_attention_torch")
def test_ring_torch_attention_equals_serial(ranks, rng):
    for p in (1, 2, 3):
        ring_torch(ranks, rng, (3,) * p, ordered=p > 1)


@points(8, "values", "ring_attention_torch")
def test_ring_torch_causal_attention(ranks, rng):
    ring_torch(ranks, rng, (3, 3, 3), causal=True)


@points(5, "values", "ring_attention_torch")
def test_ring_torch_uneven_parts(ranks, rng):
    ring_torch(ranks, rng, (4, 1, 3))


@points(5, "values", "ring_attention_torch")
def test_ring_torch_fewer_heads_of_keys(ranks, rng):
    more = {"heads": 6, "kv_heads": 2}
    call, result, case = ring_torch(ranks, rng, (3, 3), ordered=False, **more)
    ring_observed.assert_volume(result, call, case)


@points(6, "values", "ring_attention_torch")
def test_ring_torch_float32_gaps_large_scores_and_two_calls(ranks, rng):
    ring_torch(ranks, rng, (3, 3), dtype="float32")
    ring_torch(ranks, rng, (3, 3), ordered=False, how="gaps")
    ring_torch(ranks, rng, (3, 3), ordered=False, spread=40.0)
    ring_torch(ranks, rng, (3, 3), ordered=False, how="together")


@points(15, "communication", "ring_attention_torch")
def test_ring_torch_bytes_of_both_passes(ranks, rng):
    for p in (2, 4):
        for how in ("forward", "plain"):
            call, result, case = ring_torch(ranks, rng, (4,) * p, ordered=False, how=how)
            ring_observed.assert_volume(result, call, case)
            allowed = case.forward_bytes() + (how != "forward") * case.backward_bytes()
            ranks.record(call, result, {"sent_bytes": [allowed] * p})


@points(5, "communication", "ring_attention_torch")
def test_ring_torch_given_group_is_used(ranks, rng):
    def call(**where):
        return ring_torch(ranks, rng, (3, 3, 3), ordered=False, where=where)[:2]

    on_three_members(rng, call, comm="the group")


@points(14, "schedule", "ring_attention_torch")
def test_ring_torch_keys_travel_on_and_masked_blocks_are_skipped(ranks, rng):
    call, result, case = ring_torch(ranks, rng, (4, 4, 4))
    ring_observed.assert_travelling(result, call, case)
    call, result, case = ring_torch(ranks, rng, (8, 8, 8), causal=True, ordered=False)
    ring_observed.assert_skipped(result, call, case)


@points(8, "safety", "ring_attention_torch")
def test_ring_torch_everything_is_waited_for_and_lengths_are_looked_at(ranks, rng):
    where = {"machine": rendezvous(), "seed": LATENCY_SEEDS[0]}
    call, result, _ = ring_torch(ranks, rng, (3, 3, 3), ordered=False, where=where)
    assert_requests_complete(result, call)
    refused = ring_cases.refused_call((4, 4), 3)
    result = ranks.call("ring_callers_torch:ring_refuses", 2, ((4, 4), 3))
    assert_ran(result, refused)
    for error in result.values:
        ring_cases.check_refused(error, refused)


@points(4, "memory", "ring_attention_torch")
def test_ring_torch_no_keys_of_others_are_kept(ranks, rng):
    case, call = ring_cases.KEPT, ring_cases.kept_call()
    (parts,) = ring_cases.sample_attention(rng, case)
    arguments = [(*own[:3], case.lengths) for own in parts]
    result = ranks.call("ring_callers_torch:kept_for_backward", case.world_size, arguments)
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        ring_cases.check_kept_result(value, parts, case, call, rank)
    ring_cases.check_kept(result, case, call)


@points(10, "speed", "ring_attention_torch")
def test_ring_torch_time_of_a_long_sequence(ranks, rng):
    call, _, _ = ring_torch(ranks, rng, (4, 4), ordered=False)
    ring_observed.assert_long_time(ranks.trace, call, ring_cases.RING, 16)


# -- zigzag_torch ----------------------------------------------------------------------------------


def zigzag_torch(ranks, rng, p, n=4, *, ordered=True, where=None, **settings):
    case = ring_cases.Attention((n,) * p, causal=True, zigzag=True, **settings)
    return ring_torch_called(ranks, rng, case, ordered=ordered, **(where or {}))


@points(15, "values", "zigzag_torch")
def test_zigzag_splits_and_merges(ranks, rng):
    for positions, num_ranks in ((4, 2), (12, 3), (6, 2)):
        x = rng.standard_normal((2, 1, positions, 2))
        call = ring_cases.orders_call(positions, num_ranks)
        result = ranks.call("ring_callers_torch:orders", 1, (x, num_ranks))
        assert_ran(result, call)
        ring_cases.check_orders(result.values[0], x, num_ranks, call)


@points(30, "values", "zigzag_torch")
def test_zigzag_equals_serial(ranks, rng):
    for p in (1, 2, 3):
        zigzag_torch(ranks, rng, p, ordered=p > 1)
    zigzag_torch(ranks, rng, 2, heads=4, kv_heads=2)
    zigzag_torch(ranks, rng, 2, dtype="float32", how="gaps")
    zigzag_torch(ranks, rng, 2, ordered=False, how="together")


@points(15, "communication", "zigzag_torch")
def test_zigzag_bytes(ranks, rng):
    for how in ("forward", "plain"):
        call, result, case = zigzag_torch(ranks, rng, 3, ordered=False, how=how)
        ring_observed.assert_volume(result, call, case)
    on_three_members(
        rng,
        lambda **where: zigzag_torch(ranks, rng, 3, ordered=False, where=where)[:2],
        comm="the group",
    )


@points(15, "schedule", "zigzag_torch")
def test_zigzag_keys_travel_and_work_is_even(ranks, rng):
    call, result, case = zigzag_torch(ranks, rng, 3)
    ring_observed.assert_travelling(result, call, case)
    call, result, case = zigzag_torch(ranks, rng, 3, 8, ordered=False)
    ring_observed.assert_balanced(result, call, case)


@points(10, "safety", "zigzag_torch")
def test_zigzag_waits_for_everything(ranks, rng):
    where = {"machine": rendezvous(), "seed": LATENCY_SEEDS[0]}
    call, result, _ = zigzag_torch(ranks, rng, 3, ordered=False, where=where)
    assert_requests_complete(result, call)


@points(15, "speed", "zigzag_torch")
def test_zigzag_time_of_a_long_sequence(ranks, rng):
    call, _, _ = zigzag_torch(ranks, rng, 2, ordered=False)
    ring_observed.assert_long_time(ranks.trace, call, ring_cases.ZIGZAG, 4)
