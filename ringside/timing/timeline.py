"""A timed trace: who did what when, what it waited for, and what made the run as long as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from ringside.spans import Span, TimedMessage
from ringside.timing.engine import Engine
from ringside.timing.engine_state import Busy, Flight, TimedRequest, Wait
from ringside.trace import Kind, Trace

PS = 10**12


class Timeline:
    """The times of a trace on a machine; numbers in seconds, computed when asked for.

    A rank that waits is *communicating* while a message it waits for is on its way, and *idle*
    otherwise (its partner hasn't got that far, or a port is taken).

    Attributes:
        folded: axes along which one rank was timed for all that are alike.
        not_folded: axes -> why all ranks along them were timed, though they are alike.
    """

    def __init__(self, trace: Trace, machine_name: str, engine: Engine, makespan_ps: int) -> None:
        self.trace = trace
        self.world_size = trace.world_size
        self.machine_name = machine_name
        self.makespan_ps = makespan_ps
        self.makespan_s = makespan_ps / PS
        fold = engine.fold
        self._stand_in = range(trace.world_size) if fold is None else fold.stand_in
        self.folded = () if fold is None else fold.axes
        self.not_folded: dict[tuple[str, ...], str] = {}
        self.end_s = [engine.threads[stands].clock / PS for stands in self._stand_in]
        self.unfinished = engine.unfinished()
        self._engine = engine

    @property
    def deaths_s(self) -> dict[int, float]:
        """Rank -> when it was killed."""
        return self._ends_by(Kind.DEATH)

    @property
    def hangs_s(self) -> dict[int, float]:
        """Rank -> since when it hangs."""
        return self._ends_by(Kind.HANG)

    def _ends_by(self, kind: Kind) -> dict[int, float]:
        ends = {rank: ops[-1] for rank, ops in enumerate(self.trace.ops) if ops}
        return {rank: self.end_s[rank] for rank, op in ends.items() if op.kind == kind}

    @property
    def slow(self) -> dict[int, float]:
        """Rank -> how many times as long its work takes, of those that are slow."""
        return self.trace.slow

    @cached_property
    def spans(self) -> Sequence[list[Span]]:
        """Per rank, its time from 0 to its end without gaps."""
        if self._engine.fold is not None:
            return _SpansOfAll(self._stand_in, self._spans_of)
        return [self._spans_of(rank) for rank in range(self.world_size)]

    def stretches(self, rank: int) -> list[Wait | Busy]:
        """What a rank did for longer than an instant, in picoseconds."""
        return self._engine.threads[self._stand_in[rank]].spans

    def arrived_ps(self, message: int) -> int:
        """When a message had arrived, by its number; -1: never."""
        flight = self._engine.messages.get(message)
        return flight.done if flight is not None else -1

    def _spans_of(self, rank: int) -> list[Span]:
        thread = self._engine.threads[self._stand_in[rank]]
        ops = self.trace.ops[self._stand_in[rank]]
        result: list[Span] = []
        for span in thread.spans:
            op = ops[span.op]
            label, site, phase, item = self._describe(op.site)
            # A run that was cut off leaves waits without an end: they last until its last rank's.
            end = span.end if span.end >= 0 else max(self.makespan_ps, span.start)
            if op.kind == Kind.COMPUTE:
                result.append(
                    Span(
                        rank, span.start / PS, end / PS, "compute", str(op.detail[3]), site,
                        phase, item,
                    )
                )  # fmt: skip
                continue
            stored = op.kind == Kind.STORE
            on_the_way = [(span.start, end)] if stored else _message_intervals(span)
            for start, stop, busy in _split(span.start, end, on_the_way):
                kind = "communication" if busy else "idle"
                result.append(Span(rank, start / PS, stop / PS, kind, label, site, phase, item))
        return result

    def _describe(self, site: int) -> tuple[str, str, str, str]:
        """The call, its line, and what the program named: the phase and the item."""
        if not 0 <= site < len(self.trace.sites):
            return "", "", "", ""
        call, phase, item = self.trace.sites[site].parts
        return call, self.trace.sites[site].where, phase, item

    @cached_property
    def messages(self) -> list[TimedMessage]:
        """All messages that arrived, in order of their start."""
        sites = {
            (rank, index): self._describe(op.site)
            for rank, ops in enumerate(self.trace.ops)
            for index, op in enumerate(ops)
            if op.kind in (Kind.ISEND, Kind.COLLECTIVE, Kind.ACCESS)
        }
        result = [
            TimedMessage(
                m.source, m.dest, m.tag, m.nbytes, m.posted / PS, m.started / PS, m.done / PS,
                site, item,
            )
            for m in self._engine.messages.values()
            if m.done >= 0
            # 20: the engine's ``_MICRO``, above which an index is the operation's.
            for post in [m.asked_by or m]
            for _, site, _, item in [sites.get((post.source, post.index >> 20), ("", "", "", ""))]
        ]  # fmt: skip
        fold = self._engine.fold
        if fold is not None:
            result = [
                replace(m, source=int(source), dest=int(dest))
                for m in result
                for source, dest in zip(fold.moves[:, m.source], fold.moves[:, m.dest], strict=True)
            ]
        return sorted(result, key=lambda m: (m.start_s, m.source, m.dest, m.end_s))

    def _total(self, kind: str) -> list[float]:
        totals = {
            rank: sum(s.end_s - s.start_s for s in self.spans[rank] if s.kind == kind)
            for rank in sorted(set(self._stand_in))
        }
        return [totals[stands] for stands in self._stand_in]

    @cached_property
    def busy_s(self) -> list[float]:
        """Per rank, the time spent computing."""
        return self._total("compute")

    @cached_property
    def communication_s(self) -> list[float]:
        """Per rank, the time spent waiting for messages on their way: its exposed communication."""
        return self._total("communication")

    @cached_property
    def idle_s(self) -> list[float]:
        """Per rank, the rest of the makespan."""
        used = zip(self.busy_s, self.communication_s, strict=True)
        return [max(0.0, self.makespan_s - busy - waiting) for busy, waiting in used]

    @property
    def exposed_comm_s(self) -> float:
        """The longest exposed communication of any rank."""
        return max(self.communication_s, default=0.0)

    @cached_property
    def bytes_matrix(self) -> np.ndarray:
        """Shape (world_size, world_size): bytes from row to column.

        Collectives are included, but for those that are timed by a formula.
        """
        matrix = np.zeros((self.world_size, self.world_size), dtype=np.int64)
        for message in self._engine.messages.values():
            if message.started >= 0:
                matrix[message.source, message.dest] += message.nbytes
        fold = self._engine.fold
        if fold is None:
            return matrix
        moved = np.zeros_like(matrix)
        sources, dests = np.nonzero(matrix)
        for move in fold.moves:
            moved[move[sources], move[dests]] += matrix[sources, dests]
        return moved

    @cached_property
    def critical_path(self) -> list[Span]:
        """The chain of computing and messages that the makespan is made of, first to last.

        A message counts as one span on its receiver, from leaving the port to completion. Where
        one rank was timed for all that are alike, it is the one that is named.
        """
        engine, stand_in = self._engine, self._stand_in
        if not engine.threads:
            return []
        rank = max(range(self.world_size), key=lambda r: (engine.threads[r].clock, -r))
        time = engine.threads[rank].clock
        ends = [_by_end(thread.spans) for thread in engine.threads]
        path: list[Span] = []
        seen: set[tuple[int, int]] = set()  # messages that take no time lead round in circles
        while time > 0 and (rank, time) not in seen:
            seen.add((rank, time))
            span, index = ends[rank].get(time, (None, -1))
            if span is None:  # nothing ended here: follow what this rank did before
                earlier = [end for end in ends[rank] if end < time]
                if not earlier:
                    break
                time = max(earlier)
                continue
            op = self.trace.ops[rank][index]
            formula = _last_formula(span)
            if formula is not None:
                label, site, phase, item = self._describe(op.site)
                begun = formula.begun / PS
                path.append(Span(rank, begun, time / PS, "communication", label, site, phase, item))
                time = formula.begun
                if span.start < time:  # it waited for the member that began last
                    rank = formula.last
                continue
            message = _last_message(span)
            if message is None:
                label, site, phase, item = self._describe(op.site)
                kind = "compute" if op.kind == Kind.COMPUTE else "communication"
                name = str(op.detail[3]) if op.kind == Kind.COMPUTE else label
                path.append(Span(rank, span.start / PS, time / PS, kind, name, site, phase, item))
                time = span.start
                continue
            there, time = self._back_over(message, time, path, rank)
            rank = stand_in[there]
        return path[::-1]

    def _back_over(
        self, message: Flight, time: int, path: list[Span], here: int
    ) -> tuple[int, int]:
        """Add a message's way, and whatever held it up at a port; return where that began.

        Where both sides were ready at the same time, the path stays with the rank that it is on:
        through ranks that are alike it doesn't zigzag.
        """
        seen = {message}
        has_left = True  # False: only its time at the sender's port held up the message after it
        while True:
            label = f"{message.nbytes} bytes from rank {message.source} to rank {message.dest}"
            start, held = message.started, message.held_at_source
            ahead = message.held_at_dest
            if has_left and ahead is not None and ahead.done == message.arrived:
                # It waited behind another message at the receiver's port.
                start, held = message.arrived, ahead
            has_left = held is not message.held_at_source
            dest = self._stand_in[message.dest]
            path.append(Span(dest, start / PS, time / PS, "communication", label, ""))
            if held is None and message.asked_by is not None:
                held = message.asked_by  # an answer leaves when what asks for it is there
            if held is None or held in seen:
                if message.posted == message.received and here in (message.source, dest):
                    return here, start
                return message.source if message.posted > message.received else message.dest, start
            seen.add(held)
            message, time = held, start

    def _repr_html_(self) -> str:
        from ringside.draw import live_html

        return live_html(self)

    def __repr__(self) -> str:
        from ringside.units import format_count

        return (
            f"Timeline({format_count(self.world_size, 'rank')} on {self.machine_name}, "
            f"makespan {self.makespan_s * 1e6:.6g} µs)"
        )


class _SpansOfAll(Sequence[list[Span]]):
    """The spans of every rank, those of stand-ins made once and the others' when asked for."""

    def __init__(self, stand_in: Sequence[int], spans_of: Callable[[int], list[Span]]) -> None:
        self._stand_in = stand_in
        self._spans_of = spans_of
        self._known: dict[int, list[Span]] = {}

    def __len__(self) -> int:
        return len(self._stand_in)

    def __getitem__(self, rank: Any) -> Any:
        if isinstance(rank, slice):
            return [self[index] for index in range(*rank.indices(len(self)))]
        rank = range(len(self))[rank]
        stands = self._stand_in[rank]
        if stands not in self._known:
            self._known[stands] = self._spans_of(stands)
        spans = self._known[stands]
        return spans if stands == rank else [replace(span, rank=rank) for span in spans]


def _message_intervals(span: Wait | Busy) -> list[tuple[int, int]]:
    intervals: list[tuple[int, int]] = []
    if isinstance(span, Wait):
        for request in span.requests:
            if request.message is not None and request.message.started >= 0:
                message = request.message
                end = request.done if request.done >= 0 else message.done
                intervals.append((message.started, max(end, message.started)))
                asking = message.asked_by
                if asking is not None:
                    intervals.append((asking.started, asking.done))
            if request.begun >= 0:
                intervals.append((request.begun, request.done))
            if request.collective is not None:
                for inner in request.collective.spans:
                    intervals += _message_intervals(inner)
    return sorted(intervals)


def _by_end(spans: Sequence[Wait | Busy]) -> dict[int, tuple[Wait | Busy, int]]:
    """End -> the stretch, among them each round of a collective, and its rank's operation."""
    rounds = [
        (inner, span.op)
        for span in spans
        if isinstance(span, Wait)
        for request in span.requests
        if request.collective is not None
        for inner in request.collective.spans
    ]
    own = [(span, span.op) for span in spans]
    return {s.end: (s, index) for s, index in rounds + own if s.end > s.start}


def _last_formula(span: Wait | Busy) -> TimedRequest | None:
    """The collective, timed by a formula, whose end ended a wait."""
    if not isinstance(span, Wait) or not span.requests:
        return None
    last = max(span.requests, key=lambda request: request.done)
    return last if last.begun >= 0 else None


def _last_message(span: Wait | Busy) -> Flight | None:
    """The message whose completion ended a wait."""
    if not isinstance(span, Wait) or not span.requests:
        return None
    # Of a Sendrecv whose halves end together, the receive is what the rank needed to go on.
    last = max(
        span.requests, key=lambda r: (r.done, r.message is not None and r.message.receive is r)
    )
    if last.collective is not None:
        inner = [s for s in last.collective.spans if s.end == last.done]
        return _last_message(inner[-1]) if inner else None
    return last.message


def _split(start: int, end: int, busy: list[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """Cut [start, end] where the sorted intervals ``busy`` begin and end."""
    pieces: list[tuple[int, int, bool]] = []
    at = start
    for lo, hi in busy:
        lo, hi = max(lo, at), min(hi, end)
        if hi <= lo:
            continue
        if lo > at:
            pieces.append((at, lo, False))
        if pieces and pieces[-1][2] and pieces[-1][1] == lo:
            pieces[-1] = (pieces[-1][0], hi, True)
        else:
            pieces.append((lo, hi, True))
        at = hi
    if at < end:
        pieces.append((at, end, False))
    return pieces
