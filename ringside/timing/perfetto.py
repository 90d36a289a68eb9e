"""Export of a timeline to the Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

    process "ringside on textbook"
      thread "rank 0"   |Sendrecv |Sendrecv |      slices: what each rank did
      thread "rank 1"   |Sendrecv |Sendrecv |      flows: one arrow for each message
      counter "bytes in flight"

Times are microseconds of virtual time, the unit of that format.

Source: "Trace Event Format", Google, sections on complete, metadata, flow and counter events.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ringside.files import write_output

if TYPE_CHECKING:
    from ringside.spans import Span, TimedMessage
    from ringside.timing.timeline import Timeline

Event = dict[str, Any]
PID = 1  # Perfetto treats process 0 as the idle process

# Names of colours that chrome://tracing knows; Perfetto chooses by the slice's name.
_COLOURS = {
    "compute": "thread_state_running",
    "communication": "thread_state_iowait",
    "idle": "thread_state_sleeping",
}


def _us(seconds: float) -> float:
    """Microseconds, exact to the picosecond."""
    return round(seconds * 1e6, 6)


def _names(timeline: Timeline) -> Iterable[Event]:
    process = {"name": f"ringside on {timeline.machine_name}"}
    yield {"ph": "M", "name": "process_name", "pid": PID, "tid": 0, "args": process}
    for rank in range(timeline.world_size):
        for name, args in (
            ("thread_name", {"name": f"rank {rank}"}),
            ("thread_sort_index", {"sort_index": rank}),
        ):
            yield {"ph": "M", "name": name, "pid": PID, "tid": rank, "args": args}


def _slices(spans: Iterable[Span]) -> Iterable[Event]:
    for span in spans:
        if span.end_s > span.start_s:
            yield {
                "ph": "X",
                "name": span.label.partition("(")[0] or span.kind,
                "cat": span.kind,
                "cname": _COLOURS[span.kind],
                "pid": PID,
                "tid": span.rank,
                "ts": _us(span.start_s),
                "dur": _us(span.end_s - span.start_s),
                "args": {"call": span.label, "line": span.site, "kind": span.kind},
            }


def _inside(spans: Sequence[Span], ends_s: Sequence[float], time_s: float) -> float | None:
    """A time inside the slice that ends at or after `time_s`: a flow binds to what encloses it.

    A message is complete exactly when the receiver's slice ends, where the next one begins; the
    arrow is moved back into its slice, by a nanosecond or a quarter of the slice if that is less.
    """
    index = min(bisect_left(ends_s, time_s), len(spans) - 1)
    if index < 0:
        return None
    span = spans[index]
    latest_s = span.end_s - min(1e-9, (span.end_s - span.start_s) / 4)
    return min(max(time_s, span.start_s), latest_s)


def _flows(timeline: Timeline, spans: Sequence[Sequence[Span]]) -> Iterable[Event]:
    ends = [[span.end_s for span in row] for row in spans]
    for number, message in enumerate(timeline.messages):
        source, dest = message.source, message.dest
        # The sender's slice is the one in which the transmission starts: just after that instant.
        after_s = message.start_s + (message.end_s - message.start_s) * 1e-6
        start_s = _inside(spans[source], ends[source], after_s)
        end_s = _inside(spans[dest], ends[dest], message.end_s)
        if start_s is None or end_s is None:
            continue
        common = {"name": "message", "cat": "message", "id": number, "pid": PID}
        yield {**common, "ph": "s", "tid": source, "ts": _us(start_s), "args": _about(message)}
        # "bp": "e" binds to the slice around the instant instead of to the next one.
        end_us = max(_us(end_s), _us(start_s))
        yield {**common, "ph": "f", "bp": "e", "tid": dest, "ts": end_us}


def _about(message: TimedMessage) -> dict[str, Any]:
    return {
        "source": message.source,
        "dest": message.dest,
        "tag": message.tag,
        "nbytes": message.nbytes,
        "line": message.site,
    }


def _in_flight(messages: Iterable[TimedMessage]) -> Iterable[Event]:
    """A counter: bytes that have left and aren't complete."""
    changes: dict[float, int] = {}
    for message in messages:
        for time_s, change in ((message.start_s, message.nbytes), (message.end_s, -message.nbytes)):
            changes[_us(time_s)] = changes.get(_us(time_s), 0) + change
    nbytes = 0
    for time_us, change in sorted(changes.items()):
        nbytes += change
        yield {
            "ph": "C",
            "name": "bytes in flight",
            "pid": PID,
            "tid": 0,
            "ts": time_us,
            "args": {"bytes": nbytes},
        }


def trace_events(timeline: Timeline, *, counters: bool = True) -> dict[str, Any]:
    """The timeline as an object of the Trace Event Format, ready for `json.dump`.

    Args:
        timeline: what to export.
        counters: add the counter of bytes in flight.
    """
    spans = [[span for span in row if span.end_s > span.start_s] for row in timeline.spans]
    events = [*_names(timeline)]
    for row in spans:
        events += _slices(row)
    events += _flows(timeline, spans)
    if counters:
        events += _in_flight(timeline.messages)
    events += [
        {"ph": "i", "name": name, "s": "t", "pid": PID, "tid": rank, "ts": _us(time_s)}
        for name, times_s in (("killed", timeline.deaths_s), ("hangs", timeline.hangs_s))
        for rank, time_s in times_s.items()
    ]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "machine": timeline.machine_name,
            "world_size": timeline.world_size,
            "makespan_us": _us(timeline.makespan_s),
        },
    }


def export(timeline: Timeline, path: str | os.PathLike[str], *, counters: bool = True) -> Path:
    """Write the timeline as JSON for Perfetto; the file appears whole or not at all."""
    path = Path(path)
    table = trace_events(timeline, counters=counters)
    write_output(path, json.dumps(table, separators=(",", ":")).encode())
    return path
