"""What the network saw of a step: who worked on what, what travelled, and how long it took."""

from types import SimpleNamespace

import numpy as np

from ringside.checking import assert_makespan, assert_moved
from ringside.checking.ring_bytes import received_as_ring, sent_as_ring
from ringside.errors import TraceError
from ringside.timing.extrapolation import widen
from ringside.timing.replay import replay
from ringside.trace import Kind

MOST_MESSAGES = 60_000  # in one replay
MOST_CALLS = 100  # of a rank in one step, for the gradients of four arrays


def work(run, rank):
    """Floating-point operations that a rank declared, pass by pass."""
    return [op.detail[0] for op in run.trace.ops[rank] if op.kind == Kind.COMPUTE]


def assert_equal_replicas(run, case):
    """Parameters and velocity have the same bits on every rank."""
    for what, name in (("parameter", "params"), ("velocity", "velocity")):
        for rank, value in enumerate(run.values):
            pairs = zip(value[name], run.values[0][name], strict=True)
            for number, (array, first) in enumerate(pairs):
                if not np.array_equal(array, first):
                    most = float(np.abs(array - first).max())
                    raise case.fail(
                        f"{what} {number} of rank {rank} differs from rank 0's by up to "
                        f"{most:.1e}; copies must be equal bit for bit, or they drift apart."
                    )


def assert_kept(run, case):
    """Arguments stay as they were, and results are the caller's own."""
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(f"rank {rank} changed what it was given; it must stay as it was.")
        if value["shared"]:
            raise case.fail(f"rank {rank} returned an array that it was given, not a new one.")
        if value["fixed"]:
            raise case.fail(f"rank {rank} returned an array that its caller can't write to.")


def assert_own_samples(run, case):
    """No rank has all the work, and the ranks tell each other what they found."""
    nbytes = sum(param.nbytes for param in case.state[0])
    for rank, received in enumerate(received_as_ring(run)):
        done, right = sum(work(run, rank)), case.flops(rank)
        if done > 3 * right:
            raise case.fail(
                f"rank {rank} put {done:.6g} floating-point operations into the network; its own "
                f"{sum(case.pieces(0, rank))} samples take {right:.6g}. Each rank works on its own "
                "samples."
            )
        if 2 * received < nbytes:
            raise case.fail(
                f"rank {rank} received {received:.0f} bytes; the gradient has {nbytes}. "
                "The ranks must add up their gradients."
            )


def assert_one_at_a_time(run, case):
    """No rank put more than its longest microbatch into the network at once."""
    elements = case.state[0][0].size
    for rank, ops in enumerate(run.trace.ops):
        passes = [op.detail for op in ops if op.kind == Kind.COMPUTE]
        at_once = max((flops for flops, *_, phase in passes if phase == "forward 1"), default=0.0)
        longest = max(case.pieces(0, rank))
        if at_once > 2 * longest * elements * (1 + 1e-9):
            raise case.fail(
                f"rank {rank} put {at_once / 2 / elements:.0f} samples into the network at once; "
                f"its longest microbatch has {longest}."
            )


def assert_step_bytes(run, case, ranks):
    """The gradient is reduced once a step, and nothing beside it but a few numbers."""
    ranks.record(case, run, {"sent_bytes": [case.nbytes] * case.p})
    assert_moved(run, case.nbytes, case, "one all-reduce of the gradient a step, and 8 numbers")


def assert_broadcast_bytes(run, case):
    """Every rank but the first receives the parameters once, and nobody sends more."""
    # Counted as a ring, the library's broadcast comes by the root once more.
    once_more = case.nbytes if run.collectives else 0
    for rank, received in enumerate(received_as_ring(run)):
        allowed = case.nbytes if rank else once_more
        if received > allowed:
            raise case.fail(
                f"rank {rank} received {received:.0f} bytes, collectives counted as a ring's; at "
                f"most {allowed} are allowed."
            )
    sent, allowed = sum(sent_as_ring(run)) - once_more, (case.p - 1) * case.nbytes
    if sent > allowed:
        raise case.fail(
            f"all ranks together sent {sent:.0f} bytes, collectives counted as a ring's; at most "
            f"{allowed} are allowed."
        )


def assert_step_time(run, case):
    """The longest work of a rank and one all-reduce, on a cluster of many more ranks.

    Each has as many samples as the few that are run: their trace is stretched.
    """
    done, right = sum(sum(work(run, rank)) for rank in range(case.p)), case.flops()
    if done < right * (1 - 1e-9):
        raise case.fail(
            f"all ranks together put {done:.6g} floating-point operations into the network; the "
            f"samples take {right:.6g}."
        )
    calls = sum(op.kind in (Kind.COLLECTIVE, Kind.ISEND) for op in run.trace.ops[0])
    if calls > MOST_CALLS:
        raise case.fail(
            f"a rank made {calls} calls in one step: a call for each row or number takes too long."
        )
    timed, p = stretched(run, case.stretched)
    shown = case.with_(p=p, n=case.n * p // case.p, stretched=0)
    serial_s = shown.flops() / run.machine.flop_per_s
    beside = (
        f" One rank alone takes {serial_s * 1e6:.1f} µs: the speedup is "
        f"{serial_s / timed.makespan_s:.1f} of {p}."
    )
    assert_makespan(timed, shown.time_s(run.machine), shown, beside=beside)


def stretched(run, p):
    """A run with its makespan on p ranks, and p: on fewer ranks where it can't be stretched.

    A program whose messages name their partners can't, nor one that gathers shards, which become
    smaller with more ranks.
    """
    few = len(run.trace.ops)
    names = {op.detail[0] for op in run.trace.ops[0] if op.kind == Kind.COLLECTIVE}
    if p <= few or {"reduce_scatter", "allgather"} <= names:
        return run, few
    while num_messages(run, p) > MOST_MESSAGES:  # many calls are as slow on fewer
        p //= 2
    try:
        makespan_s = replay(widen(run.trace, p), run.machine).makespan_s
    except TraceError:
        return run, few
    return SimpleNamespace(makespan_s=makespan_s, comm_calls=[], machine=run.machine), p


def num_messages(run, p):
    """Messages that a replay on p ranks moves, about: some collectives go round a ring."""
    rounds = 0
    for op in run.trace.ops[0]:
        if op.kind == Kind.COLLECTIVE:
            in_a_ring = op.detail[0] in ("allgather", "reduce_scatter")
            rounds += 2 * p if in_a_ring else 2 * p.bit_length()
        else:
            rounds += 1
    return p * rounds
