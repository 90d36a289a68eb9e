"""What each rank sends and receives when library collectives count as a ring's messages.

    p ranks, a collective of m bytes                        each rank sends, and receives
    allreduce                                               2 m (p - 1) / p
    reduce_scatter, allgather, gather, scatter, alltoall    m (p - 1) / p, of m bytes in all
    bcast, reduce, scan, exscan                             m: round the ring once, in pieces
    a reduction that the members do themselves              m (p - 1): everybody gets every part
    barrier, agree                                          0

The members do a reduction of Python objects themselves, and one by an operation of their own.
Point-to-point messages count as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringside.network.recording import CollectiveRecord
    from ringside.session.session import Result

_CUT = ("reduce_scatter", "allgather", "gather", "scatter")
_WHOLE = ("bcast", "reduce", "scan", "exscan")


def bytes_of(record: CollectiveRecord) -> float:
    """Bytes that each member of a library collective sends, as a ring would."""
    p = len(record.members)
    if p == 1 or record.name in ("barrier", "agree"):
        return 0.0
    if record.by_members:
        return float(record.nbytes * (p - 1))
    if record.name == "allreduce":
        return 2 * record.nbytes * (p - 1) / p
    if record.name in _CUT:
        return record.nbytes * (p - 1) / p
    if record.name == "alltoall":  # nbytes is what all members send, their own parts included
        return record.nbytes * (p - 1) / p / p
    if record.name in _WHOLE:
        return float(record.nbytes)
    raise ValueError(f"no ring is known for the collective {record.name!r}")


def sent_as_ring(result: Result) -> list[float]:
    """Per rank of the world, bytes sent, collectives included."""
    return _with_collectives(result, result.sent_bytes())


def received_as_ring(result: Result) -> list[float]:
    """Per rank of the world, bytes received, collectives included."""
    return _with_collectives(result, result.received_bytes())


def _with_collectives(result: Result, nbytes: list[int]) -> list[float]:
    moved = [float(size) for size in nbytes]
    for record in result.collectives:
        for rank in record.members:
            moved[rank] += bytes_of(record)
    return moved
