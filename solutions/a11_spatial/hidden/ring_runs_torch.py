"""Runs of attention in parts that the suites of two modules look at.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more. A
program that collects all keys by other ways than the ring fails here, whatever its values.
"""

import functools

from ringside.checking import Verdict, assert_ran, buffered
from ringside.errors import RunError, TraceError
from ringside.factors import Factors
from ringside.scale import agreement
from solutions.a11_spatial import ring_cases_torch as cases
from solutions.a11_spatial import ring_observed_torch as observed
from solutions.a11_spatial.ring_cases_torch import RING, ZIGZAG

ALL = range(4)  # the result, and the gradients of q, k and v
HALVES = {"the result": ALL[:1], "the gradients": ALL[1:]}


def called(
    ranks, rng, case, *, ordered=False, real=False, inputs=False, only=ALL, run=None, **where
):
    """Run a case, and compare with the whole sequence on one rank; returns call and result.

    Args:
        only: which of the result and the gradients of q, k and v are compared.
        run: what ``made`` gave; it is compared, and not made again.
    """
    call, result, wanted = run or made(ranks, rng, case, ordered=ordered, real=real, **where)
    for rank, value in enumerate(result.values):
        cases.check_attention(value, wanted, case, call, rank, only)
        if inputs and value["changed"]:
            raise call.fail(f"rank {rank} changed a tensor that it was given.")
    if not real and "members" not in where:
        observed.assert_ring(result, call)
    if getattr(result, "factors", None) and not case.causal and len(set(case.lengths)) == 1:
        observed.assert_early(result, call, case)
    return call, result


def made(ranks, rng, case, *, ordered=False, real=False, **where):
    """A run that ended: its call, the result, and what it must be."""
    call = cases.attention_call(case)
    sample = cases.sample_attention(rng, case)
    target = ZIGZAG if case.zigzag else RING
    rest = (None, False) if case.zigzag else (list(case.lengths), case.causal)
    arguments = [
        (target, [parts[rank] for parts in sample], *rest, case.how)
        for rank in range(case.world_size)
    ]
    if ordered:
        where["factors"] = Factors.drawn(rng)
    if not real:
        where.setdefault("machine", buffered())
    world_size = where.pop("world_size", case.world_size)
    result = ranks.call("ring_callers_torch:ring_called", world_size, arguments, **where)
    assert_ran(result, call)
    if not real:
        call = call.seen_in(result)
    factors = getattr(result, "factors", None)  # real ranks have none
    return call, result, [cases.serial(case, parts, factors) for parts in sample]


def halves(ranks, rng, some, where="", *, ordered=True):
    """Checks of the result and of the gradients, each by itself: of the same runs."""

    @functools.cache
    def run(case):
        return made(ranks, rng, case, ordered=ordered)

    def check(only):
        for case in some:
            called(ranks, rng, case, only=only, run=run(case))

    return {f"{name}{where}": functools.partial(check, only) for name, only in HALVES.items()}


def on_gloo(run):
    """What fails there only is said to."""
    try:
        run()
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


def assert_traces_agree(ranks, case, call):
    """A trace on fake tensors is what the network counts of the same call, on four ranks."""
    target, p = ZIGZAG if case.zigzag else RING, case.world_size
    arguments = target, 8 * p, case.heads, case.kv_heads, case.width
    result = ranks.call("ring_callers_torch:long_sequence", p, arguments)
    assert_ran(result, call)
    call = call.asking("ring_long_time=8")
    try:
        traced = ranks.trace("ring_callers_torch:long_sequence", p, arguments)
        agreement.compare(traced.trace, result.trace)
    except (RunError, TraceError) as error:
        raise call.fail(
            f"a trace on fake tensors is not what the network counted ({type(error).__name__}): "
            "nothing may depend on the elements' values."
        ) from None
