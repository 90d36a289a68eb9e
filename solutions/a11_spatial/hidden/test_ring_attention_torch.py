"""ring_attention_torch.py: keys and values round the ring, blocks joined, gradients home."""

import functools

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
from solutions.a11_spatial.hidden.parts import checked
from solutions.a11_spatial.ring_cases_torch import Attention

points = points_of("ring_attention_torch")


def ring(ranks, rng, lengths, *, where=None, ordered=True, real=False, inputs=False, only=runs.ALL,
         **settings):  # fmt: skip
    """A run whose values are right; settings are those of ``Attention``."""
    case = Attention(tuple(lengths), **settings)
    about = {"ordered": ordered, "real": real, "inputs": inputs, "only": only}
    call, result = runs.called(ranks, rng, case, **about, **(where or {}))
    return call, result, case


RESULT, GRADIENTS = runs.HALVES.values()

# -- values ----------------------------------------------------------------------------------------


@points(10, "values")
def test_result_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        ring(ranks, rng, (3,) * p, how="forward")


@points(10, "values")
def test_gradients_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        ring(ranks, rng, (3,) * p, only=GRADIENTS)
    ring(ranks, rng, (4,), ordered=False)


@points(11, "values")
def test_causal_attention(ranks, rng):
    def masked_blocks_are_left_out():
        call, result, case = ring(ranks, rng, (8,) * 4, causal=True, only=RESULT)
        observed.assert_skipped(result, call, case)

    some = [Attention((3,) * p, causal=True) for p in (2, 3, 5)]
    checks = runs.halves(ranks, rng, some)
    checked(checks | {"the work": masked_blocks_are_left_out})


@points(5, "values")
def test_uneven_parts(ranks, rng):
    some = [Attention(lengths) for lengths in ((2, 5), (4, 1, 3), (1, 1, 6, 2))]
    checked(runs.halves(ranks, rng, some))


@points(6, "values")
def test_fewer_heads_of_keys(ranks, rng):
    # Factors belong to the heads of keys: keys that were repeated first would look wrong.
    def nbytes():
        more = {"heads": 6, "kv_heads": 1, "width": 8, "ordered": False, "only": RESULT}
        call, result, case = ring(ranks, rng, (4, 4, 4), **more)
        observed.assert_volume(result, call, case)

    few = Attention((3, 3), heads=4, kv_heads=2), Attention((2, 2, 2), heads=3, kv_heads=1)
    checked(runs.halves(ranks, rng, few, ordered=False) | {"the bytes": nbytes})


@points(6, "values")
def test_large_scores_float32_gaps_and_two_calls(ranks, rng):
    # Exponentials of large scores overflow; logarithms of sums don't.
    tried = {
        " of large scores": (Attention((3, 3, 3), spread=40.0), False),
        " in float32": (Attention((3, 3, 3), dtype="float32"), True),
        " of tensors with gaps": (Attention((4, 4, 4), how="gaps"), True),
        " of two calls": (Attention((3, 3, 3), how="together"), False),
    }
    checks = {}
    for name, (case, ordered) in tried.items():
        checks |= runs.halves(ranks, rng, [case], name, ordered=ordered)
    checked(checks)


@points(3, "reality")
def test_real_gloo(gloo, rng):
    runs.on_gloo(lambda: ring(gloo, rng, (3, 3, 3), ordered=False, real=True))


# -- communication and schedule --------------------------------------------------------------------


@points(9, "communication")
def test_bytes_of_both_passes(ranks, rng):
    def check(how, sizes):
        for p, n in sizes:
            more = {"batch": 1, "width": 8, "how": how}
            call, result, case = ring(ranks, rng, (n,) * p, **more)
            observed.assert_volume(result, call, case)
            allowed = case.forward_bytes() + (how != "forward") * case.backward_bytes()
            ranks.record(call, result, {"sent_bytes": [allowed] * p})

    small, others = ((2, 8), (3, 8), (4, 8)), ((5, 4), (9, 2), (17, 2), (2, 100))
    checked(
        {
            "the forward pass": lambda: check("forward", (*small, (9, 2))),
            "both passes": lambda: check("plain", (*small, *others)),
        }
    )


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def check(only):
        def call(**where):
            return ring(ranks, rng, (3, 3, 3), where=where, only=only)[:2]

        on_three_members(rng, call, comm="the group")

    checked({name: functools.partial(check, only) for name, only in runs.HALVES.items()})


@points(9, "schedule")
def test_keys_travel_on_while_their_block_is_computed(ranks, rng):
    def check(name, only):
        for p in (2, 4):
            call, result, case = ring(ranks, rng, (4,) * p, only=only)
            observed.assert_travelling(result, call, case, [name])

    passes = {"forward": RESULT, "backward": GRADIENTS}
    checked({name: functools.partial(check, name, only) for name, only in passes.items()})


# -- safety, memory, speed -------------------------------------------------------------------------


@points(8, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    def check(only):
        for seed in LATENCY_SEEDS:
            where = {"machine": rendezvous(), "seed": seed}
            call, result, _ = ring(ranks, rng, (3, 3, 3, 3), where=where, only=only)
            assert_requests_complete(result, call)

    checked({name: functools.partial(check, only) for name, only in runs.HALVES.items()})


@points(3, "safety")
def test_inputs_stay_and_wrong_lengths_are_refused(ranks, rng):
    def refused():
        ring(ranks, rng, (3, 3), only=RESULT)
        for lengths, positions in (((4, 4), 3), ((3,), 3)):
            call = cases.refused_call(lengths, positions)
            result = ranks.call("ring_callers_torch:ring_refuses", 2, (lengths, positions))
            assert_ran(result, call)
            for error in result.values:
                cases.check_refused(error, call)

    checked({"inputs": lambda: ring(ranks, rng, (3, 3), inputs=True), "refusals": refused})


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


@points(12, "speed")
def test_time_of_a_long_sequence_on_8_to_64_ranks(ranks, rng):
    call, _, case = ring(ranks, rng, (4,) * 4)
    # A trace is believed that agrees with what the network counts, operation by operation.
    runs.assert_traces_agree(ranks, case, call)
    for num_ranks in (64, 8):
        observed.assert_long_time(ranks.trace, call, cases.RING, num_ranks)
