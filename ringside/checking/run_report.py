"""What `ringside run` says about a run on simulated ranks, for people and for programs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ringside.arrays import Array
from ringside.checking import inputs
from ringside.checking.assertions import differs, notes, one_line, open_requests, resemblance
from ringside.checking.inputs import short
from ringside.checking.ring_bytes import sent_as_ring
from ringside.network.recording import CollectiveRecord
from ringside.session.session import Result
from ringside.timing.ports import PS
from ringside.units import format_bytes, format_count, format_time

_MOST_UNRECEIVED = 4  # kinds of messages that are told


def compared(
    result: Result, function: str | None, options: inputs.Options | None, path: Path
) -> tuple[str, str]:
    """ "right", "wrong" or "not compared" with the serial computation, and what is wrong."""
    if function is None or options is None or result.error is not None:
        return "not compared", ""
    nothing = all(value is None for value in result.values)
    if nothing and inputs.takes_group(path, function):
        return "not compared", ""  # it overwrites its tensor
    p = len(result.values)
    for rank, value in enumerate(result.values):
        truth = inputs.expected(function, p, rank, options)
        if truth is None:
            return "not compared", ""
        if not inputs.matches(value, truth):
            sentence = f"Rank {rank} returned {short(value)}; it must be {short(truth)}."
            parts = inputs.parts(function, p, rank, options)
            return "wrong", sentence + _resemblance(value, truth, parts)
    return "right", ""


def nothing_happened(result: Result) -> bool:
    """Whether the ranks ended well without a word, a message or a computation."""
    return result.error is None and not any(result.output) and not any(result.trace.ops)


def as_json(result: Result, target: str, values: str) -> dict[str, Any]:
    """For programs; times in seconds of virtual time."""
    timeline = result.timeline
    return {
        "target": target,
        "machine": result.machine.name,
        "world_size": result.world_size,
        "members": list(result.members),
        "error": str(result.error) if result.error else None,
        "error_type": type(result.error).__name__ if result.error else None,
        "values": values,
        "makespan_s": result.makespan_s,
        "sent_bytes": result.sent_bytes(),
        "sent_messages": result.sent_messages(),
        "put_bytes": result.put_bytes(),
        "got_bytes": result.got_bytes(),
        "busy_s": timeline.busy_s,
        "communication_s": timeline.communication_s,
        "idle_s": timeline.idle_s,
        "exposed_comm_s": timeline.exposed_comm_s,
        "collectives": [record.name for record in result.collectives],
        "collective_kinds": [dataclasses.asdict(kind) for kind in _collectives(result)],
        "output": result.output,
        "unreceived": result.unreceived,
        "deaths": [
            {"rank": death.rank, "operation": death.op + 1, "time_s": death.time_ps / PS}
            for death in result.deaths
        ],
        "hangs": [
            {"rank": hang.rank, "operation": hang.op + 1, "time_s": hang.time_ps / PS}
            for hang in result.hangs
        ],
        "slow": {str(rank): factor for rank, factor in result.trace.slow.items()},
        "straggler": result.straggler() or None,
        "unfinished": open_requests(result) if result.error is None else [],
        "notes": list(result.notes.values()),
    }


def text(
    result: Result,
    target: str,
    values: str,
    options: inputs.Options | None,
    path: Path | None = None,
    wrong: str = "",
) -> str:
    """For people: what each rank printed, returned, sent and waited.

    Args:
        wrong: a sentence that stands behind ``values: wrong``.
    """
    lines: list[str] = []
    for rank, printed in enumerate(result.output):
        lines += [f"[{rank}] {line}" for line in printed.splitlines()]
    if result.error is not None:
        lines += [f"{type(result.error).__name__}: {result.error}", ""]
    details = _given(target.rpartition(":")[2], options, path)
    ranks = format_count(result.world_size, "rank")
    if result.members != tuple(range(result.world_size)):
        ranks = f"ranks {', '.join(map(str, result.members))} of {result.world_size}"
    lines.append(f"{target} on {ranks} of machine {result.machine.name!r}{details}")
    if any(result.sent_messages()) or result.collectives:
        lines += _table(result)
    lines.append(f"makespan {format_time(result.makespan_s)} of virtual time")
    lines += [stop.told for stop in (*result.deaths, *result.hangs)]
    slow = [f"rank {rank} {factor:g} times" for rank, factor in sorted(result.trace.slow.items())]
    lines += [f"slow: {', '.join(slow)} as long in what it computes"] if slow else []
    put, got = sum(result.put_bytes()), sum(result.got_bytes())
    if put or got:
        lines.append(f"stores: {format_bytes(put)} written, {format_bytes(got)} read")
    if result.collectives:
        lines.append(f"library collectives{_as_ring(result)}:")
        lines += [f"  {kind.told(result.world_size)}" for kind in _collectives(result)]
    if result.error is None and (straggler := result.straggler()):
        lines.append(straggler)
    if result.unreceived:
        alike = Counter(result.unreceived)
        told = [f"{what} ({n} times)" if n > 1 else what for what, n in alike.items()]
        rest = ["..."] if len(told) > _MOST_UNRECEIVED else []
        lines.append("sent and never received: " + ", ".join([*told[:_MOST_UNRECEIVED], *rest]))
    if values != "not compared":
        more = f". {wrong}" if wrong else ""
        if values == "right":
            more = ", equal to the serial computation on every rank"
        lines.append(f"values: {values}{more}")
    elif result.error is None and options is not None:
        lines += [
            f"rank {rank} returned {short(value)}" for rank, value in enumerate(result.values[:8])
        ]
    if result.error is not None or values == "wrong":
        lines += notes(result)
    elif values == "not compared":  # what is shorter may well be right
        lines += [one_line(note, 400) for name, note in result.notes.items() if name != "length"]
    if result.error is None:
        lines += open_requests(result)
    if any(result.inputs_changed):
        lines.append(f"rank {result.inputs_changed.index(True)} changed its input")
    return "\n".join(lines)


def _given(function: str, options: inputs.Options | None, path: Path | None) -> str:
    """The length and the dtype of the inputs, if the function's inputs have them."""
    if options is None:
        return ""
    details = ""
    for name, phrase in (("n", f"n = {options.n}"), ("dtype", options.dtype)):
        if path is None or inputs.depends(path, function, name, options):
            details += f", {phrase}"
    return details


def _table(result: Result) -> list[str]:
    timeline = result.timeline
    rows: list[tuple[str, ...]] = [
        # Where messages were left lying, what was sent to a rank isn't what it received.
        ("rank", "sent", "messages", "sent to it" if result.unreceived else "received",
         "compute", "communication", "idle")
    ]  # fmt: skip
    ranks = (
        range(result.world_size) if result.world_size <= 16 else (*range(8), result.world_size - 1)
    )
    sent, received = result.sent_bytes(), result.received_bytes()
    messages = result.sent_messages()
    for rank in ranks:
        times = (timeline.busy_s[rank], timeline.communication_s[rank], timeline.idle_s[rank])
        rows.append(
            (
                str(rank),
                format_bytes(sent[rank]),
                str(messages[rank]),
                format_bytes(received[rank]),
                *(format_time(time_s) for time_s in times),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


@dataclass(frozen=True)
class _Kind:
    """The collectives of one name in groups of one size."""

    call: str
    groups: list[tuple[int, ...]]
    num_calls: int
    nbytes: int  # of all calls together
    alike: bool  # all calls have as many bytes, and all groups make as many calls

    def told(self, world_size: int) -> str:
        """The line on it."""
        count, size = self.num_calls, len(self.groups[0])
        if len(self.groups) > 1:
            where = f"{len(self.groups)} groups of {format_count(size, 'rank')}"
        elif size == world_size:
            where = "all ranks"
        else:
            where = f"ranks {', '.join(map(str, self.groups[0]))}"
        if self.alike:
            calls = format_count(count // len(self.groups), "call")
            calls += f" of {format_bytes(self.nbytes // count)}" if self.nbytes else ""
            among = "in each of" if len(self.groups) > 1 else "among"
            return f"{self.call}: {calls} {among} {where}"
        calls = f"{format_count(count, 'call')}, {format_bytes(self.nbytes)} in all"
        return f"{self.call}: {calls}, {'in' if len(self.groups) > 1 else 'among'} {where}"


def _collectives(result: Result) -> list[_Kind]:
    """The kinds of collectives in the order of their names, larger groups first."""
    records_of: dict[tuple[str, int], list[CollectiveRecord]] = {}
    for record in result.collectives:
        key = record.shown or record.name, -len(record.members)
        records_of.setdefault(key, []).append(record)
    kinds = []
    for (call, _), records in sorted(records_of.items(), key=lambda item: item[0]):
        calls_of = Counter(record.members for record in records)
        sizes = Counter(record.nbytes for record in records)
        alike = len(sizes) == len(set(calls_of.values())) == 1
        nbytes = sum(record.nbytes for record in records)
        kinds.append(_Kind(call, sorted(calls_of), len(records), nbytes, alike))
    return kinds


def _as_ring(result: Result) -> str:
    """The bytes of collectives, which the table of messages doesn't have."""
    try:
        most = max(sent_as_ring(result))
    except ValueError:  # no ring is known for one of them
        return ""
    return f" (not in the table; as a ring's messages a rank sends {format_bytes(most)})"


def _resemblance(value: Any, wanted: Array, parts: Sequence[Array]) -> str:
    """What a wrong array is instead of the right one, such as a rank's own part of a sum."""
    if not isinstance(value, np.ndarray):
        return ""
    if (value.dtype, value.shape) != (wanted.dtype, wanted.shape):
        return ""
    wrong = differs(value, wanted, None, len(parts))
    return resemblance(value, wanted, wrong, len(parts), parts)
