"""What a run leaves behind: its operations, its collectives, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ringside.errors import RunError
from ringside.network import codec
from ringside.network.deaths import Death
from ringside.timing.flight_recorder import Joined
from ringside.trace import CallSite, Kind, Trace
from ringside.trace import Op as TraceOp


@dataclass(frozen=True)
class CollectiveRecord:
    """One use of a library collective: on which communicator, by whom, how many bytes in all.

    ``by_members``: a reduction that the network can't do (of objects, or by a user's operation):
    every member got every part, each of at most ``nbytes``. ``shown``: what the first member calls
    it, such as all_gather_into_tensor of an allgather.
    """

    name: str
    comm: str
    members: tuple[int, ...]
    nbytes: int
    by_members: bool = False
    shown: str = ""


@dataclass(frozen=True)
class Recording:
    """A run's operations as they were recorded: sites are numbered by every rank for itself.

    Attributes:
        joined: the calls of collectives, for the flight recorder.
        groups: path of each communicator -> its ranks.
    """

    ops: list[list[TraceOp]]
    sites: list[list[CallSite]]
    machine: str
    slow: Mapping[int, float] = field(default_factory=dict)
    joined: Sequence[Joined] = ()
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def trace(self) -> Trace:
        """The trace, its sites numbered in order of first use by rank."""
        numbers: dict[CallSite, int] = {}
        ops = []
        for recorded, sites in zip(self.ops, self.sites, strict=True):
            number_of = [numbers.setdefault(site, len(numbers)) for site in sites]
            mine = []
            for op in recorded:
                if op.kind == Kind.QUERY:  # never answered: the run was cut off here
                    op = TraceOp(Kind.POLL, detail=(0,), site=op.site)
                number = number_of[op.site] if 0 <= op.site < len(number_of) else -1
                mine.append(TraceOp(*op[:8], number))
            ops.append(mine)
        return Trace(len(ops), ops, list(numbers), self.machine, dict(self.slow))


@dataclass
class RunEnd:
    """What a run left behind."""

    recording: Recording
    bodies: list[codec.Part | None]
    error: RunError | None
    output: list[str]
    collectives: list[CollectiveRecord]
    comm_calls: list[str]
    unreceived: list[str]
    notes: dict[str, str]  # on messages that don't fit the buffers that took them
    num_operations: int = 0  # as ``bounds.Limits`` counts them
    deaths: Sequence[Death] = ()
    hangs: Sequence[Death] = ()
