"""Recorded calls of a real run, put together: a trace, and a timeline with the real times.

The trace is the same kind of file as that of simulated ranks and can be replayed on a
modelled machine; the time between two calls stands in it as computation of that length.
Clocks start at a barrier, so times of different ranks agree to about one message's latency.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ringside.spans import Span, TimedMessage
from ringside.timing.timeline import Timeline
from ringside.trace import CallSite, Kind, Op, Trace

PS = 10**12
# Collectives whose cost depends on every member's part; the others have one size for all.
_BY_PART = ("allgather", "gather", "scatter", "reduce_scatter")


@dataclass(frozen=True)
class RecordedCall:
    """One call of one rank, a `ringside.session.recorder.CallRecord`; without a name, the end.

    Attributes:
        ops: ``["isend", comm, peer, tag, nbytes, request, mode]``, ``["irecv", comm, peer, tag,
            nbytes, request, (source, tag) as asked, ...]``, ``["wait", requests]`` and
            ``["collective", comm, request, name, root, sequence, members, part]``, where ``part``
            are the bytes of this member's part, of an all-to-all those for each member.
        work: since the call before: FLOPs, their bytes, operators, bytes of those bound by memory.
    """

    name: str
    file: str
    line: int
    start_s: float
    end_s: float
    ops: Sequence[Sequence[Any]]
    work: Sequence[float] = (0.0, 0.0, 0, 0.0)


class MeasuredTimeline:
    """The real times of a run, with the names of `ringside.timing.timeline.Timeline`.

    A rank is "communication" inside a call and "compute" between calls: what it waited for in
    a call can't be seen from outside the library.
    """

    time_label = "measured time"

    def __init__(self, world_size: int, machine_name: str) -> None:
        self.world_size = world_size
        self.machine_name = machine_name
        self.spans: list[list[Span]] = [[] for _ in range(world_size)]
        self.messages: list[TimedMessage] = []
        self.critical_path: list[Span] = []

    @property
    def makespan_s(self) -> float:
        return max((spans[-1].end_s for spans in self.spans if spans), default=0.0)

    @property
    def end_s(self) -> list[float]:
        return [spans[-1].end_s if spans else 0.0 for spans in self.spans]

    @property
    def exposed_comm_s(self) -> float:
        return max(
            (
                sum(s.end_s - s.start_s for s in spans if s.kind == "communication")
                for spans in self.spans
            ),
            default=0.0,
        )

    def _repr_html_(self) -> str:
        from ringside.draw import live_html

        return live_html(self)


def seconds_by_call(timeline: MeasuredTimeline | Timeline) -> dict[str, float]:
    """Seconds that a rank spends in each kind of call, as "Sendrecv", and in "compute".

    The mean of the ranks; a rank that ends early waits in no call.
    """
    total: dict[str, float] = defaultdict(float)
    for spans in timeline.spans:
        for span in spans:
            kind = "compute" if span.kind == "compute" else span.label.partition("(")[0]
            total[kind] += (span.end_s - span.start_s) / timeline.world_size
    return dict(sorted(total.items()))


def assemble(
    calls: Sequence[Sequence[RecordedCall]], machine_name: str, *, cut: bool = False
) -> tuple[Trace, MeasuredTimeline]:
    """Return the trace and the timeline of a run.

    Args:
        calls: per rank, in order.
        machine_name: where it ran, for the headings.
        cut: some ranks stopped writing before the end: messages and collectives that not all of
            their ranks wrote down are left out.
    """
    builder = _Builder(len(calls), cut)
    timeline = MeasuredTimeline(len(calls), machine_name)
    for rank, rank_calls in enumerate(calls):
        at_s = 0.0
        for call in rank_calls:
            if call.start_s > at_s:
                gap_ps = round((call.start_s - at_s) * PS)
                flops, nbytes, kernels, moved = call.work
                detail = (flops, nbytes, gap_ps, "between calls", kernels, moved)
                builder.add(rank, Op(Kind.COMPUTE, detail=detail), at_s)
                timeline.spans[rank].append(Span(rank, at_s, call.start_s, "compute", "", ""))
            if not call.name:
                break
            site = CallSite(call.name, call.file, call.line)
            for op in call.ops:
                builder.add_recorded(rank, op, site, call)
            timeline.spans[rank].append(
                Span(rank, call.start_s, call.end_s, "communication", call.name, site.where)
            )
            at_s = call.end_s
    trace = builder.finish(machine_name)
    timeline.messages = builder.messages(trace)
    return trace, timeline


class _Builder:
    def __init__(self, world_size: int, cut: bool = False) -> None:
        self.cut = cut
        self.ops: list[list[Op]] = [[] for _ in range(world_size)]
        self.times_s: list[list[float]] = [[] for _ in range(world_size)]
        self.sites: dict[CallSite, int] = {}
        self.started: list[set[int]] = [set() for _ in range(world_size)]  # requests
        self.incomplete: set[tuple[int, int]] = set()  # (rank, index): collectives that some lack
        self.done_s: dict[tuple[int, int], float] = {}  # (rank, request): when the wait ended

    def add(self, rank: int, op: Op, time_s: float) -> None:
        self.ops[rank].append(op)
        self.times_s[rank].append(time_s)

    def add_recorded(
        self, rank: int, op: Sequence[Any], site: CallSite, call: RecordedCall
    ) -> None:
        number = self.sites.setdefault(site, len(self.sites))
        kind, *fields = op
        if kind == "isend":
            comm, peer, tag, nbytes, request, mode = fields
            new_op = Op(Kind.ISEND, peer, tag, nbytes, comm, request, -1, (mode,), number)
        elif kind == "irecv":
            comm, peer, tag, nbytes, request, pattern = fields[:6]
            new_op = Op(Kind.IRECV, peer, tag, nbytes, comm, request, -1, tuple(pattern), number)
        elif kind == "wait":
            # What was started before the record began is not in it.
            requests = tuple(request for request in fields[0] if request in self.started[rank])
            if not requests:
                return
            new_op = Op(Kind.WAIT, detail=requests, site=number)
            for request in requests:
                self.done_s[rank, request] = call.end_s
        else:
            comm, request, name, root, sequence, members, part = fields
            nbytes = sum(part) if isinstance(part, list | tuple) else part
            detail = (name, sequence, root, tuple(members), part)
            new_op = Op(Kind.COLLECTIVE, -1, 0, nbytes, comm, request, -1, detail, number)
        self.started[rank].add(new_op.request)
        self.add(rank, new_op, call.start_s)

    def finish(self, machine_name: str) -> Trace:
        self._pair()
        self._complete_collectives()
        if self.cut:
            self._drop_what_others_lack()
        return Trace(len(self.ops), self.ops, list(self.sites), machine_name)

    def _pair(self) -> None:
        """Number each message at both ends: MPI keeps the order between two ranks with one tag."""
        sends: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
        for rank, ops in enumerate(self.ops):
            for index, op in enumerate(ops):
                if op.kind == Kind.ISEND:
                    sends[op.comm, rank, op.peer, op.tag].append((rank, index))
        number = 0
        for rank, ops in enumerate(self.ops):
            for index, op in enumerate(ops):
                # No wildcard is left here: the recording has put in who sent, where a message came.
                waiting = sends.get((op.comm, op.peer, rank, op.tag))
                if op.kind == Kind.IRECV and waiting:
                    source, at = waiting.pop(0)
                    sent = self.ops[source][at]
                    self.ops[source][at] = sent._replace(message=number)
                    # A lower-case receive sees pickled bytes; the sender knows the payload.
                    ops[index] = op._replace(message=number, nbytes=sent.nbytes)
                    number += 1
        for source, at in sorted(entry for queue in sends.values() for entry in queue):
            self.ops[source][at] = self.ops[source][at]._replace(message=number)  # never received
            number += 1

    def _complete_collectives(self) -> None:
        """Give every member the sizes of all members' parts, and one name to each collective."""
        parts: dict[tuple[str, tuple[int, ...], int], dict[int, Any]] = defaultdict(dict)
        positions = []
        for rank, ops in enumerate(self.ops):
            for index, op in enumerate(ops):
                if op.kind == Kind.COLLECTIVE:
                    _, sequence, _, members, part = op.detail
                    parts[op.comm, members, sequence][members.index(rank)] = part
                    positions.append((rank, index))
        for rank, index in positions:
            op = self.ops[rank][index]
            name, sequence, root, members, _ = op.detail
            by_member = parts[op.comm, members, sequence]
            self.ops[rank][index] = op._replace(
                detail=(name, sequence, root, members, _sizes(name, root, len(members), by_member))
            )
            if len(by_member) < len(members):
                self.incomplete.add((rank, index))

    def _drop_what_others_lack(self) -> None:
        """Leave out what has no other side, and waiting for it."""
        paired = [
            {op.message for ops in self.ops for op in ops if op.kind == kind}
            for kind in (Kind.ISEND, Kind.IRECV)
        ]
        for rank, ops in enumerate(self.ops):
            timed_ops, dropped = [], set()
            for index, op in enumerate(ops):
                message = op.kind in (Kind.ISEND, Kind.IRECV)
                alone = message and not all(op.message in side for side in paired)
                if (rank, index) in self.incomplete or alone:
                    dropped.add(op.request)
                    continue
                if op.kind == Kind.WAIT:
                    op = op._replace(detail=tuple(n for n in op.detail if n not in dropped))
                    if not op.detail:
                        continue
                timed_ops.append((op, self.times_s[rank][index]))
            self.ops[rank] = [op for op, _ in timed_ops]
            self.times_s[rank] = [time_s for _, time_s in timed_ops]

    def messages(self, trace: Trace) -> list[TimedMessage]:
        """Each message from the call that sent it to the end of the call that received it."""
        sent: dict[int, tuple[int, Op, float]] = {}
        for rank, ops in enumerate(trace.ops):
            for op, time_s in zip(ops, self.times_s[rank], strict=True):
                if op.kind == Kind.ISEND and op.message >= 0:
                    sent[op.message] = (rank, op, time_s)
        result = []
        for rank, ops in enumerate(trace.ops):
            for op in ops:
                if op.kind == Kind.IRECV and op.message in sent:
                    source, send, start_s = sent[op.message]
                    end_s = max(self.done_s.get((rank, op.request), start_s), start_s)
                    where = trace.site_of(send).where
                    result.append(
                        TimedMessage(
                            source, rank, op.tag, op.nbytes, start_s, start_s, end_s, where
                        )
                    )
        return sorted(result, key=lambda message: (message.start_s, message.source, message.dest))


def _sizes(name: str, root: int, size: int, parts: dict[int, Any]) -> tuple[int, ...]:
    """Counted bytes of a collective, in the form that ``ringside.timing.collectives`` wants."""
    if name == "alltoall":
        return tuple(nbytes for m in range(size) for nbytes in _cut(parts.get(m, 0), size))
    if name in _BY_PART:
        return tuple(parts.get(m, 0) for m in range(size))
    return (parts.get(root, 0),)


def _cut(part: Any, size: int) -> list[int]:
    """What a member gives each of the others, where it is not known one by one."""
    return list(part) if isinstance(part, list | tuple) else [part // size] * size
