"""Runs and checks that the suites of the torch modules share.

Whatever a test is about, it asks for the values of its own run first, on two ranks or more. Runs
that several tests look at are made once (``ranks.once``).
"""

import numpy as np

from ringside import Machine
from ringside.checking import (
    LATENCY_SEEDS,
    Verdict,
    assert_moved,
    assert_ran,
    assert_requests_complete,
    buffered,
    members_of_world,
    on_members,
    rendezvous,
)
from ringside.trace import Kind
from solutions.a08_tensor_parallel.cases_torch import assert_near

FREE_BYTES = 64  # beside, for each other rank
HELD_BYTES = 4096  # beside, in a layer
EVERYTHING = [Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE]


def slow_cores(alpha_s=5e-7):
    """A cluster whose cores are slow enough that small layers keep them busy."""
    return Machine("slow cores", alpha_s=alpha_s, beta_s_per_byte=2e-9, flop_per_s=1e9)


def finished(result, call):
    """The values of a run that ended well, one per rank."""
    assert_ran(result, call)
    return result.values


# -- operators -------------------------------------------------------------------------------------


def called(ranks, rng, call, expected, shape, *, how="plain", same=False, **where):
    """Call an operator on every rank, and compare; returns the run.

    Args:
        expected: ``(xs, dys) -> (ys, dxs)``, lists with an array a rank.
        shape: of x; ``expected`` tells that of the result.
        same: every rank has the same x.
    """
    p = call.world_size
    xs = [rng.standard_normal(shape).astype(call.dtype) for _ in range(p)]
    xs = [xs[0]] * p if same else xs
    ys, _ = expected(_wide(xs), [])
    dys = [rng.standard_normal(y.shape).astype(call.dtype) for y in ys]
    arguments = [(call.target, x, dy, how) for x, dy in zip(xs, dys, strict=True)]
    world_size = where.pop("world_size", p)
    where.setdefault("machine", buffered())
    result = ranks.call("callers_torch:operator", world_size, arguments, **where)
    call = call.seen_in(result)
    counts = [np.ones_like(dy) for dy in dys] if how == "sum" else dys
    ys, dxs = expected(_wide(xs), _wide(counts))
    for rank, (y, dx, second, changed) in enumerate(finished(result, call)):
        assert_near(y, ys[rank], call, f"rank {rank}'s result")
        right = dxs[rank] + 3 if how == "beside" else dxs[rank]
        assert_near(dx, right, call, f"rank {rank}'s gradient of x")
        if how == "shared":
            what = f"rank {rank}'s gradient of another tensor that shares the incoming gradient"
            assert_near(second, 3 * dys[rank].astype("float64"), call, what)
            if changed:
                raise call.fail(
                    f"rank {rank} changed x or the gradient that came in; both must stay as they "
                    "were."
                )
    return result


def _wide(arrays):
    return [each.astype("float64") for each in arrays]


# -- what was sent ---------------------------------------------------------------------------------


def check_bytes(ranks, result, allowed, call, what):
    """Each rank sent and received at most so many bytes, collectives as a ring's; no groups."""
    if result.comm_calls:
        raise call.fail("groups were made; none is allowed.")
    bound = allowed + FREE_BYTES * (call.world_size - 1)
    ranks.record(call, result, {"sent_bytes": [bound] * call.world_size})
    assert_moved(result, bound, call, what)


def check_cut(result, num_flops, weights_nbytes, call):
    """The point of the exercise: no rank has all the work, and the weights stay where they are.

    Args:
        num_flops: of the whole layers' products.
        weights_nbytes: bytes of all their weights.
    """
    assert_moved(result, weights_nbytes / 2, call, "weights stay on their ranks")
    for rank, done in enumerate(result.num_flops()):
        if done > 0.9 * num_flops:
            raise call.fail(
                f"rank {rank} counted {done:.6g} floating-point operations, as many as the whole "
                f"layers take ({num_flops:.6g}); each rank should multiply its part."
            )


def check_group(rng, call, run):
    """``run(members, world_size)`` is right on ranks of the world in an order of their own."""

    def on(members=None, world_size=call.world_size):
        return run(members, world_size)

    members, world_size = members_of_world(rng, call.world_size)
    on_members(
        on,
        members,
        world_size,
        call,
        comm="the group",
    )


def check_any_order(run, call):
    """``run(machine, seed)`` is right whatever is slow, and waits for what it starts."""
    for seed in LATENCY_SEEDS:
        for machine in (buffered(), rendezvous()):
            assert_requests_complete(run(machine, seed), call, EVERYTHING)


def check_kept(result, call):
    """No rank changed what it was given."""
    for rank, value in enumerate(result.values):
        if value["changed"]:
            raise call.fail(
                f"rank {rank} changed x or the gradient of the result; both must stay as they were."
            )


def check_registered(value, rank, call):
    """Parameters are parameters of their module, so that an optimizer finds them."""
    if not value["registered"]:
        raise call.fail(
            f"on rank {rank} the attributes that the docstring names are not among the module's "
            "parameters(): an optimizer would not find them."
        )


def check_held(held, allowed, rank, what, call):
    """A module keeps its parts only."""
    if held > allowed + HELD_BYTES:
        raise call.fail(
            f"on rank {rank} {what} keeps tensors of {held} bytes, whole tensors of which it "
            f"holds a view included; its parts have {allowed}."
        )


def check_work(result, num_flops, call):
    """All ranks together did the work of the serial layers."""
    done = sum(result.num_flops())
    if done < num_flops * (1 - 1e-9):
        raise call.fail(
            f"all ranks together counted {done:.6g} floating-point operations; "
            f"the layers take {num_flops:.6g}."
        )


def on_gloo(check):
    """Run ``check``, and let its verdict say where it was."""
    try:
        check()
    except Verdict as verdict:
        raise Verdict(f"on gloo: {verdict.sentence}", detail=verdict.detail) from None
