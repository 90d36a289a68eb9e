"""zigzag_torch.py: chunks r and 2 P - 1 - r, and the same work for all under a causal mask."""

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

points = points_of("zigzag_torch")


def zigzag(
    ranks, rng, p, n=4, *, where=None, ordered=True, real=False, inputs=False, only=runs.ALL, **more
):
    """A run whose values are right; n positions on each of p ranks."""
    case = given(p, n, **more)
    about = {"ordered": ordered, "real": real, "inputs": inputs, "only": only}
    call, result = runs.called(ranks, rng, case, **about, **(where or {}))
    return call, result, case


def given(p, n=4, **settings):
    return Attention((n,) * p, causal=True, zigzag=True, **settings)


RESULT, GRADIENTS = runs.HALVES.values()

# -- values ----------------------------------------------------------------------------------------


@points(13, "values")
def test_split_and_merge(ranks, rng):
    def check(sizes):
        # Only orders of a ring that computes attention count.
        ranks.once("two ranks", lambda rng: zigzag(ranks, rng, 2, how="forward"))
        for positions, num_ranks in sizes:
            x = rng.standard_normal((2, 3, positions, 2))
            call = cases.orders_call(positions, num_ranks)
            result = ranks.call("ring_callers_torch:orders", 1, (x, num_ranks))
            assert_ran(result, call)
            cases.check_orders(result.values[0], x, num_ranks, call)

    checked(
        {
            "lengths that can be cut": lambda: check(((4, 2), (12, 3), (10, 1), (64, 16))),
            "other lengths": lambda: check(((6, 2), (5, 1), (0, 2), (20, 3))),
        },
        {"lengths that can be cut": 3},
    )


@points(12, "values")
def test_result_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        zigzag(ranks, rng, p, how="forward")


@points(11, "values")
def test_gradients_on_2_to_5_ranks(ranks, rng):
    for p in (2, 3, 4, 5):
        zigzag(ranks, rng, p, only=GRADIENTS)
    zigzag(ranks, rng, 1, ordered=False)


@points(11, "values")
def test_fewer_heads_float32_gaps_and_two_calls(ranks, rng):
    tried = {
        " with fewer heads of keys": (given(3, heads=4, kv_heads=2), False),
        " in float32": (given(3, dtype="float32"), True),
        " of tensors with gaps": (given(3, how="gaps"), True),
        " of two calls": (given(3, how="together"), False),
    }
    checks = {}
    for name, (case, ordered) in tried.items():
        checks |= runs.halves(ranks, rng, [case], name, ordered=ordered)
    checked(checks)


@points(3, "reality")
def test_real_gloo(gloo, rng):
    runs.on_gloo(lambda: zigzag(gloo, rng, 3, ordered=False, real=True))


# -- communication and schedule --------------------------------------------------------------------


@points(10, "communication")
def test_bytes_of_both_passes(ranks, rng):
    def check(how, sizes):
        for p, n in sizes:
            call, result, case = zigzag(ranks, rng, p, n, batch=1, how=how)
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
            return zigzag(ranks, rng, 3, where=where, only=only)[:2]

        on_three_members(rng, call, comm="the group")

    checked({name: functools.partial(check, only) for name, only in runs.HALVES.items()})


@points(8, "schedule")
def test_keys_travel_on_while_their_block_is_computed(ranks, rng):
    def check(name, only):
        for p in (2, 4):
            call, result, case = zigzag(ranks, rng, p, only=only)
            observed.assert_travelling(result, call, case, [name])

    passes = {"forward": RESULT, "backward": GRADIENTS}
    checked({name: functools.partial(check, name, only) for name, only in passes.items()})


@points(8, "schedule")
def test_all_ranks_have_the_same_work(ranks, rng):
    for p in (3, 4):
        call, result, case = zigzag(ranks, rng, p, 8, only=RESULT)
        observed.assert_balanced(result, call, case)


# -- safety, speed ---------------------------------------------------------------------------------


@points(6, "safety")
def test_any_order_and_everything_waited_for(ranks, rng):
    def check(only):
        for seed in LATENCY_SEEDS:
            where = {"machine": rendezvous(), "seed": seed}
            call, result, _ = zigzag(ranks, rng, 4, where=where, only=only)
            assert_requests_complete(result, call)

    checked({name: functools.partial(check, only) for name, only in runs.HALVES.items()})


@points(2, "safety")
def test_inputs_and_incoming_gradient_stay(ranks, rng):
    zigzag(ranks, rng, 2, inputs=True)


@points(12, "speed")
def test_time_of_a_long_sequence_on_8_ranks(ranks, rng):
    call, _, case = zigzag(ranks, rng, 4)
    runs.assert_traces_agree(ranks, case, call)
    observed.assert_long_time(ranks.trace, call, cases.ZIGZAG, 8)
