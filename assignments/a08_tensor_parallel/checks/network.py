"""What the network saw of a layer: who multiplied what, what travelled, and how long it took.

Of a case these functions ask ``flops`` and ``weight_nbytes`` of the whole layer, what a rank may
send (``allowed_nbytes``) and keep (``kept_nbytes``), and what all ranks have whole
(``replicated``).
"""

from types import SimpleNamespace

import numpy as np

from ringside.checking import assert_makespan, assert_moved
from ringside.checking.cases import machine_of
from ringside.errors import TraceError
from ringside.timing.extrapolation import widen
from ringside.timing.replay import replay
from ringside.trace import Kind, Op, Trace

EVERYTHING = (Kind.ISEND, Kind.IRECV, Kind.COLLECTIVE)  # what must be completed
SENDS = ("rendezvous", "buffered")  # where any order is tried: sends wait, or ranks run ahead
HELD_BYTES = 4096  # free beside a layer's parts
MOST_MESSAGES = 60_000  # in one replay


def assert_alike(run, case):
    """What all ranks have whole has the same bits on each."""
    first = case.replicated(run.values[0])
    for rank, value in enumerate(run.values):
        for (name, array), (_, other) in zip(case.replicated(value), first, strict=True):
            if not np.array_equal(array, other):
                most = float(np.abs(array - other).max())
                raise case.fail(
                    f"rank {rank}'s {name} differs from rank 0's by up to {most:.1e}; it must be "
                    "equal bit for bit, or copies drift apart."
                )


def assert_cut(run, case):
    """No rank has all the work, and the weights stay where they are, whatever the values are."""
    assert_all_work(run, case, 0.5)  # the rest is missed by a product that isn't counted
    for rank, done in enumerate(run.num_flops()):
        if done > 0.9 * case.flops:
            raise case.fail(
                f"rank {rank} counted {done:.6g} floating-point operations, as many as the whole "
                f"layer takes ({case.flops:.6g}); each rank should multiply its part."
            )
    assert_moved(run, case.weight_nbytes / 2, case, "weights stay on their ranks")


def assert_all_work(run, case, share=1.0):
    """All ranks together did the work of the whole layer, or a share of it."""
    done = sum(run.num_flops())
    if done < share * case.flops * (1 - 1e-9):
        raise case.fail(
            f"all ranks together counted {done:.6g} floating-point operations; the layer takes "
            f"{case.flops:.6g}."
        )


def assert_own_work(run, case):
    """Each rank's products are those of its own part; some may be computed again."""
    for rank, done in enumerate(run.num_flops()):
        right = case.own_flops(rank)
        if not right * (1 - 1e-9) <= done <= right * (1 + case.again) * (1 + 1e-9):
            raise case.fail(
                f"rank {rank} put {done:.6g} floating-point operations into layers.matmul; its own "
                f"part takes {right:.6g}."
            )


def assert_bytes(run, case, ranks, what="in forward and backward together"):
    """Each rank sent and received at most what the docstring allows; no groups of torch."""
    if run.comm_calls and case.module.endswith("_torch"):
        raise case.fail("groups were made; none is allowed.")
    ranks.record(case, run, {"sent_bytes": [case.allowed_nbytes] * case.p})
    assert_moved(run, case.allowed_nbytes, case, what)


def assert_unchanged(run, case):
    """No rank changed what it was given."""
    for rank, value in enumerate(run.values):
        if value["changed"]:
            raise case.fail(
                f"rank {rank} changed x or the gradient of the result; both must stay as they were."
            )


def assert_held(run, case, *names):
    """Modules of torch keep their parts only."""
    for rank, value in enumerate(run.values):
        for name, held, own in zip(names, value["held"], case.kept_nbytes, strict=True):
            if held > own + HELD_BYTES:
                raise case.fail(
                    f"on rank {rank} {name} keeps tensors of {held} bytes, whole tensors of which "
                    f"it holds a view included; its parts have {own}."
                )


def assert_time(run, case):
    """Both passes take as long as products and ring all-reduces, one after another."""
    assert_all_work(run, case)
    machine = machine_of(case)
    taken, p = stretched(run, case.wide, machine)
    again = min(sum(run.num_flops()) - case.flops, case.again * case.flops) / case.p
    bound_s = makespan_s([("compute", max(0.0, again)), *case.steps], p, machine)
    alone_s = case.flops * p / case.p / machine.flop_per_s
    beside = (
        f" {'Timed on' if taken is run else 'Stretched to'} {p} ranks; one rank alone takes "
        f"{alone_s * 1e6:.1f} µs: the speedup is {alone_s / taken.makespan_s:.1f} of {p}."
    )
    assert_makespan(taken, bound_s, case, beside=beside)


def stretched(run, p, machine):
    """The run as it would be on p ranks, and on how many it is; 0: as it is."""
    if not p or not same_everywhere(run):
        return run, run.world_size
    p = max(run.world_size, affordable(run, p))
    time_s = replay(widen(run.trace, p), machine).makespan_s
    return SimpleNamespace(makespan_s=time_s, comm_calls=[], machine=machine), p


def affordable(run, p):
    """So many ranks that a replay moves few messages: many calls are as slow on fewer."""
    calls = sum(op.kind == Kind.COLLECTIVE for op in run.trace.ops[0])
    while 2 * calls * p**2 > MOST_MESSAGES:
        p //= 2
    return p


def same_everywhere(run):
    """Can a trace be stretched? Not if messages name their partners, or shards are cut."""
    names = {op.detail[0] for op in run.trace.ops[0] if op.kind == Kind.COLLECTIVE}
    if not names <= {"allreduce", "barrier", "bcast", "reduce"}:
        return False
    try:
        widen(run.trace, 2 * run.world_size)
    except TraceError:
        return False
    return True


def makespan_s(steps, p, machine):
    """Replay of ranks that all do the same: ``("compute", flops)`` and ``("allreduce", bytes)``."""
    ops, members = [], tuple(range(p))
    for number, (what, amount) in enumerate(steps):
        if what == "compute":
            ops.append(Op(Kind.COMPUTE, detail=(float(amount), 0.0, -1, "product")))
        elif p > 1:
            nbytes, request = int(amount), number + 1
            detail = ("allreduce", sum(op.kind == Kind.COLLECTIVE for op in ops), 0, members)
            detail = (*detail, (nbytes,))
            ops.append(Op(Kind.COLLECTIVE, nbytes=nbytes, request=request, detail=detail))
            ops.append(Op(Kind.WAIT, detail=(request,)))
    return replay(Trace(p, [ops] * p), machine).makespan_s
