"""A run of a few ranks, stretched to many: for programs whose ranks all do the same.

    rank 0  compute  allreduce of 0, 1, 2, 3        rank 0    compute  allreduce of 0, ..., 511
    rank 1  compute  allreduce of 0, 1, 2, 3   ->   rank 1    compute  allreduce of 0, ..., 511
    ...                                             rank 511  compute  allreduce of 0, ..., 511

New rank r does what rank ``r % p`` did; collectives go over all. That is weak scaling: the work
and the bytes of a rank stay, the number of ranks grows. It holds for programs that compute and
call collectives of all ranks; point-to-point messages name their partners, so they can't be
stretched.
"""

from __future__ import annotations

from ringside.errors import TraceError
from ringside.trace import Kind, Op, Trace

_ONE_SIZE = ("allreduce", "barrier", "bcast", "reduce")


def widen(trace: Trace, world_size: int) -> Trace:
    """The trace of a run on ``world_size`` ranks, from one on fewer.

    Raises:
        TraceError: it has fewer ranks than before, or operations that can't be stretched.
    """
    if world_size < trace.world_size:
        raise TraceError(
            f"world_size ({world_size}) must be at least that of the trace ({trace.world_size})."
        )
    if trace.slow:
        raise TraceError("some ranks of this trace are slow: which of more ranks were isn't known.")
    ranks = [[_wide(op, trace, world_size) for op in rank_ops] for rank_ops in trace.ops]
    ops = [ranks[rank % trace.world_size] for rank in range(world_size)]
    return Trace(world_size, ops, trace.sites, trace.machine)


def _wide(op: Op, trace: Trace, world_size: int) -> Op:
    if op.kind in (Kind.COMPUTE, Kind.WAIT, Kind.PASS):
        return op
    where = trace.sites[op.site].call if 0 <= op.site < len(trace.sites) else f"kind {op.kind}"
    if op.kind != Kind.COLLECTIVE:
        raise TraceError(f"{where} can't be stretched to {world_size} ranks: it names a partner.")
    name, sequence, root, members, sizes = op.detail
    if tuple(members) != tuple(range(trace.world_size)):
        raise TraceError(f"{where} is a collective of some ranks only: it can't be stretched.")
    if name == "allgather" and len(set(sizes)) == 1:
        wide = (sizes[0],) * world_size
    elif name == "reduce_scatter":
        length, longer = divmod(sum(sizes), world_size)
        wide = tuple(length + (rank < longer) for rank in range(world_size))
    elif name in _ONE_SIZE:
        wide = tuple(sizes)
    else:
        raise TraceError(f"{where}: {name} can't be stretched to {world_size} ranks.")
    detail = (name, sequence, root, tuple(range(world_size)), wide)
    return op._replace(detail=detail)
