"""Runs of the training step that the suite looks at.

Each rank is handed its own parameters and data alone. The values of nearly all runs are scaled by
factors that a rank is told when it begins a pass of its own layers, so a program that gathers the
model and computes it on every rank has other values.
"""

from pathlib import Path

from ringside.checking import Verdict, assert_ran, buffered
from ringside.checking.examples import beside
from ringside.errors import RunError, TraceError
from ringside.factors import Factors
from ringside.scale import agreement

SOLUTION = Path(__file__).resolve().parents[1]
cases = beside(SOLUTION / "train3d_torch.py").train3d

ALL = cases.Training((1, 1), dp=2, tp=2)  # 2 x 2 x 2


def trained(ranks, rng, case, *, observed=True, words=True, loss=True, **where):
    """Train, and compare with one process; returns call and result."""
    call = case.call()
    whole, data = cases.sample(rng, case)
    arguments = [cases.arguments_of(case, whole, data, rank) for rank in range(case.world_size)]
    if observed:
        where["factors"] = Factors.drawn(rng)
    if "factors" in where:  # a real run has no machine
        where.setdefault("machine", buffered())
    world_size = where.pop("world_size", case.world_size)
    result = ranks.call("train3d_callers_torch:trained", world_size, arguments, **where)
    assert_ran(result, call)
    call = call.seen_in(result) if hasattr(result, "factors") else call
    wanted = cases.serial(case, whole, data, getattr(result, "factors", None))
    for rank, value in enumerate(result.values):
        cases.check_training(value, wanted, case, call, rank, words=words, loss=loss)
    return call, result


def layer(ranks, rng, tp):
    """``run_layer`` on a tensor axis, with announced passes."""
    call, case = cases.layer_call(tp), cases.layer_case(tp)
    whole, x, dy = cases.layer_sample(rng, case)
    arguments = [(vars(case), cases.parts_of(case, whole, rank), x, dy) for rank in range(tp)]
    result = ranks.call(
        "train3d_callers_torch:layer_run", tp, arguments, factors=Factors.drawn(rng)
    )
    assert_ran(result, call)
    call = call.seen_in(result)
    wanted = cases.serial_layer(case, whole, x, dy, result.factors)
    for rank, value in enumerate(result.values):
        cases.check_layer(value, wanted, case, call, rank)


def grid(ranks, sizes, **where):
    """``make_grid`` alone."""
    call = cases.grid_call(sizes)
    result = ranks.call(
        "train3d_callers_torch:grid_made", where.pop("world_size", call.world_size), tuple(sizes),
        **where,
    )  # fmt: skip
    assert_ran(result, call)
    for rank, value in enumerate(result.values):
        cases.check_grid(value, sizes, call, rank)
    return call, result


def on_gloo(run):
    """What fails there only is said to."""
    try:
        run()
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None


def assert_trace_agrees(ranks):
    """A trace on fake tensors is what the network counts of the same step, on 2 x 2 x 2 ranks."""
    settings, target = cases.SMALL, "train3d_callers_torch:large_step"
    call = ALL.call()
    result = ranks.call(target, 8, (settings,))
    assert_ran(result, call)
    try:
        grid = {"pp": 2, "dp": 2, "tp": 2}
        traced = ranks.trace(target, 8, (settings,), grid=grid, alike=("dp", "tp"))
        agreement.compare(traced.trace, result.trace)
    except (RunError, TraceError) as error:
        raise call.fail(
            f"a trace on fake tensors is not what the network counted ({type(error).__name__}): "
            "nothing may depend on the elements' values."
        ) from None
