"""zigzag_torch.py: chunks r and 2 P - 1 - r, and the same work for all under a causal mask."""

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

points = points_of("zigzag_torch")


def zigzag(ranks, rng, p, n=4, *, ordered=True, real=False, inputs=False, where=None, **settings):
    """A run whose values are right; n positions on each of p ranks."""
    case = Attention((n,) * p, causal=True, zigzag=True, **settings)
    call, result = runs.called(
        ranks, rng, case, ordered=ordered, real=real, inputs=inputs, **(where or {})
    )
    return call, result, case


# -- values ----------------------------------------------------------------------------------------


def orders(ranks, rng, sizes):
    for positions, num_ranks in sizes:
        x = rng.standard_normal((2, 3, positions, 2))
        call = cases.orders_call(positions, num_ranks)
        result = ranks.call("ring_callers_torch:orders", 1, (x, num_ranks))
        assert_ran(result, call)
        cases.check_orders(result.values[0], x, num_ranks, call)


@points(10, "values")
def test_split_and_merge(ranks, rng):
    zigzag_of_two(ranks)
    orders(ranks, rng, ((4, 2), (12, 3), (10, 1), (64, 16)))


@points(3, "values")
def test_lengths_that_cannot_be_cut(ranks, rng):
    zigzag_of_two(ranks)
    orders(ranks, rng, ((6, 2), (5, 1), (0, 2), (20, 3)))


def zigzag_of_two(ranks):
    """Only orders of a ring that computes attention count."""
    ranks.once("two ranks", lambda rng: zigzag(ranks, rng, 2, how="forward"))


@points(12, "values")
def test_forward_pass_alone(ranks, rng):
    for p in (2, 3, 4):
        zigzag(ranks, rng, p, how="forward")


@points(11, "values")
def test_attention_equals_serial_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        zigzag(ranks, rng, p)
    zigzag(ranks, rng, 1, ordered=False)


@points(4, "values")
def test_attention_on_9_and_17_ranks(ranks, rng):
    for p in (9, 17):
        zigzag(ranks, rng, p, 2, batch=1)


@points(5, "values")
def test_fewer_heads_of_keys(ranks, rng):
    zigzag(ranks, rng, 3, ordered=False, heads=4, kv_heads=2)


@points(3, "values")
def test_float32_and_tensors_with_gaps(ranks, rng):
    zigzag(ranks, rng, 3, dtype="float32")
    zigzag(ranks, rng, 3, how="gaps")


@points(3, "values")
def test_two_calls_before_their_backward_passes(ranks, rng):
    zigzag(ranks, rng, 3, ordered=False, how="together")


@points(3, "reality")
def test_real_gloo(gloo, rng):
    runs.on_gloo(lambda: zigzag(gloo, rng, 3, ordered=False, real=True))


# -- communication and schedule --------------------------------------------------------------------


@points(8, "communication")
def test_bytes_of_both_passes(ranks, rng):
    for p, n in ((2, 8), (3, 8), (4, 8), (5, 4), (9, 2), (17, 2), (2, 100)):
        for how in ("forward", "plain") if p < 5 else ("plain",):
            call, result, case = zigzag(ranks, rng, p, n, batch=1, how=how)
            observed.assert_volume(result, call, case)
            allowed = case.forward_bytes() + (how != "forward") * case.backward_bytes()
            ranks.record(call, result, {"sent_bytes": [allowed] * p})


@points(4, "communication")
def test_given_group_is_used(ranks, rng):
    def call(**where):
        return zigzag(ranks, rng, 3, where=where)[:2]

    on_three_members(rng, call, comm="the group")


@points(8, "schedule")
def test_keys_travel_on_while_their_block_is_computed(ranks, rng):
    for p in (2, 4):
        call, result, case = zigzag(ranks, rng, p)
        observed.assert_travelling(result, call, case)


@points(6, "schedule")
def test_all_ranks_have_the_same_work(ranks, rng):
    for p in (3, 4):
        call, result, case = zigzag(ranks, rng, p, 8)
        observed.assert_balanced(result, call, case)


# -- safety, speed ---------------------------------------------------------------------------------


@points(5, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    for seed in LATENCY_SEEDS:
        where = {"machine": rendezvous(), "seed": seed}
        call, result, _ = zigzag(ranks, rng, 4, where=where)
        assert_requests_complete(result, call)


@points(2, "safety")
def test_inputs_and_incoming_gradient_stay(ranks, rng):
    zigzag(ranks, rng, 2, inputs=True)


@points(13, "speed")
def test_time_of_a_long_sequence_on_8_ranks(ranks, rng):
    call, _, case = zigzag(ranks, rng, 4)
    runs.assert_traces_agree(ranks, case, call)
    observed.assert_long_time(ranks.trace, call, cases.ZIGZAG, 8)
