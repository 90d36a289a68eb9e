"""ring_attention_torch.py: keys and values round the ring, blocks joined, gradients home."""

from ringside.checking import (
    LATENCY_SEEDS,
    assert_ran,
    assert_requests_complete,
    on_three_members,
    rendezvous,
)
from ringside.checking.points import points_of
from solutions.a11_spatial import ring_cases_torch as cases
from solutions.a11_spatial import ring_observed_torch as observed
from solutions.a11_spatial.hidden import ring_runs_torch as runs
from solutions.a11_spatial.ring_cases_torch import Attention

points = points_of("ring_attention_torch")


def ring(ranks, rng, lengths, *, ordered=True, real=False, inputs=False, where=None, **settings):
    """A run whose values are right; settings are those of ``Attention``."""
    case = Attention(tuple(lengths), **settings)
    call, result = runs.called(
        ranks, rng, case, ordered=ordered, real=real, inputs=inputs, **(where or {})
    )
    return call, result, case


# -- values ----------------------------------------------------------------------------------------


@points(14, "values")
def test_forward_pass_alone(ranks, rng):
    for p in (2, 3, 4):
        ring(ranks, rng, (3,) * p, how="forward")


@points(7, "values")
def test_attention_equals_serial_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        ring(ranks, rng, (3,) * p)
    ring(ranks, rng, (4,), ordered=False)


@points(3, "values")
def test_attention_on_9_and_17_ranks(ranks, rng):
    for p in (9, 17):
        ring(ranks, rng, (2,) * p, batch=1)


@points(5, "values")
def test_causal_attention(ranks, rng):
    for p in (2, 3, 5):
        ring(ranks, rng, (3,) * p, causal=True)


@points(5, "values")
def test_uneven_parts(ranks, rng):
    for lengths in ((2, 5), (4, 1, 3), (1, 1, 6, 2)):
        ring(ranks, rng, lengths)


@points(5, "values")
def test_fewer_heads_of_keys(ranks, rng):
    # Factors belong to the heads of keys: keys that were repeated first would look wrong.
    ring(ranks, rng, (3, 3), ordered=False, heads=4, kv_heads=2)
    ring(ranks, rng, (2, 2, 2), ordered=False, heads=3, kv_heads=1)


@points(3, "values")
def test_large_scores(ranks, rng):
    # Exponentials of these overflow; logarithms of sums don't.
    ring(ranks, rng, (3, 3, 3), ordered=False, spread=40.0)


@points(2, "values")
def test_float32(ranks, rng):
    ring(ranks, rng, (3, 3, 3), dtype="float32")


@points(2, "values")
def test_tensors_with_gaps(ranks, rng):
    ring(ranks, rng, (4, 4, 4), how="gaps")


@points(3, "values")
def test_two_calls_before_their_backward_passes(ranks, rng):
    ring(ranks, rng, (3, 3, 3), ordered=False, how="together")


@points(3, "reality")
def test_real_gloo(gloo, rng):
    runs.on_gloo(lambda: ring(gloo, rng, (3, 3, 3), ordered=False, real=True))


# -- communication and schedule --------------------------------------------------------------------


@points(6, "communication")
def test_bytes_of_both_passes(ranks, rng):
    for p, n in ((2, 8), (3, 8), (4, 8), (5, 4), (9, 2), (17, 2), (2, 100)):
        for how in ("forward", "plain") if p < 5 else ("plain",):
            more = {"batch": 1, "width": 8, "how": how}
            call, result, case = ring(ranks, rng, (n,) * p, **more)
            observed.assert_volume(result, call, case)
            allowed = case.forward_bytes() + (how != "forward") * case.backward_bytes()
            ranks.record(call, result, {"sent_bytes": [allowed] * p})


@points(3, "communication")
def test_keys_travel_once_for_all_their_queries(ranks, rng):
    more = {"heads": 6, "kv_heads": 1, "width": 8, "ordered": False}
    call, result, case = ring(ranks, rng, (4, 4, 4), **more)
    observed.assert_volume(result, call, case)


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def call(**where):
        return ring(ranks, rng, (3, 3, 3), where=where)[:2]

    on_three_members(rng, call, comm="the group")


@points(7, "schedule")
def test_keys_travel_on_while_their_block_is_computed(ranks, rng):
    for p in (2, 4):
        call, result, case = ring(ranks, rng, (4,) * p)
        observed.assert_travelling(result, call, case)


@points(5, "schedule")
def test_masked_blocks_are_not_computed(ranks, rng):
    call, result, case = ring(ranks, rng, (8,) * 4, causal=True)
    observed.assert_skipped(result, call, case)


# -- safety, memory, speed -------------------------------------------------------------------------


@points(6, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        where = {"machine": rendezvous(), "seed": seed}
        call, result, _ = ring(ranks, rng, (3, 3, 3, 3), where=where)
        assert_requests_complete(result, call)


@points(2, "safety")
def test_inputs_and_incoming_gradient_stay(ranks, rng):
    ring(ranks, rng, (3, 3), inputs=True)


@points(1, "safety")
def test_lengths_that_cannot_be_right(ranks, rng):
    ring(ranks, rng, (3, 3))
    for lengths, positions in (((4, 4), 3), ((3,), 3)):
        call = cases.refused_call(lengths, positions)
        result = ranks.call("ring_callers_torch:ring_refuses", 2, (lengths, positions))
        assert_ran(result, call)
        for error in result.values:
            cases.check_refused(error, call)


@points(4, "memory")
def test_no_keys_of_others_are_kept(ranks, rng):
    case, call = cases.KEPT, cases.kept_call()
    (parts,) = cases.sample_attention(rng, case)
    arguments = [(*own[:3], case.lengths) for own in parts]
    result = ranks.call("ring_callers_torch:kept_for_backward", case.world_size, arguments)
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        cases.check_kept_result(value, parts, case, call, rank)
    cases.check_kept(result, case, call)


@points(10, "speed")
def test_time_of_a_long_sequence_on_8_to_64_ranks(ranks, rng):
    call, _, case = ring(ranks, rng, (4,) * 4)
    # A trace is believed that agrees with what the network counts, operation by operation.
    runs.assert_traces_agree(ranks, case, call)
    for num_ranks in (64, 8):
        observed.assert_long_time(ranks.trace, call, cases.RING, num_ranks)
