"""A flight recorder: the last collectives of every rank, as PyTorch's keeps them.

    rank 0   dp0 41 all_reduce completed   dp0 42 all_reduce started
    rank 1   dp0 41 all_reduce completed                                rank 1 never came to dp0 42

Each rank has a ring buffer: what doesn't fit any more leaves it at the front, so the buffers of two
ranks begin at different numbers. Here the network fills them, from what it has recorded of any run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from ringside.timing.machine import Machine
from ringside.timing.ports import PS
from ringside.timing.replay import engine_of
from ringside.trace import Kind, Op, Trace
from ringside.units import format_time

COMPLETED, STARTED, SCHEDULED = "completed", "started", "scheduled"
FEWEST = 8  # collectives of a rank that are enough to call it a straggler
_NEARLY_ALL, _LATE = 0.9, 0.05  # of them; of the makespan, that it is late by in all

Record = dict[str, Any]


class Joined(NamedTuple):
    """A rank's call of a collective, as the network took it.

    Attributes:
        op: its index among the rank's operations.
        comm: the communicator's path.
        sequence: which of the communicator's collectives it is, from 0 on.
        count: elements that the rank gives; of an uneven collective those of each member.
    """

    rank: int
    op: int
    comm: str
    sequence: int
    name: str
    dtype: Any
    count: Any


@dataclass(frozen=True)
class FlightRecorder:
    """What the ranks' flight recorders hold at the end of a run.

    A record is a dict with the fields of PyTorch's, under shorter names::

        group         the communicator's path: "world", "world/0.1"
        seq           which collective of that group it is, from 1 on
        op            its name, such as "all_reduce"
        dtype, count  of what the rank gives
        state         "completed"; "started": it waits for others; "scheduled": it stands behind
                      another one of its group that isn't complete
        created_ps    when the rank called it, on the virtual clock
        started_ps, completed_ps   when that was; -1: not yet

    Attributes:
        dumps: rank -> its records, oldest first. A rank that was killed has left none.
        groups: name -> its ranks.
    """

    dumps: dict[int, list[Record]]
    groups: dict[str, tuple[int, ...]]

    def straggler(self, makespan_s: float) -> str:
        """A sentence on the rank that comes last to nearly all its collectives; or empty."""
        starts: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
        for rank, records in self.dumps.items():
            for record in records:
                if record["state"] == COMPLETED:
                    starts[record["group"], record["seq"]][rank] = record["started_ps"]
        took_part: dict[int, int] = defaultdict(int)
        late_ps: dict[int, list[int]] = defaultdict(list)
        for (group, _), started in starts.items():
            if len(started) == len(self.groups[group]) > 1:
                for rank in started:
                    took_part[rank] += 1
                *_, second, last = sorted(started, key=lambda rank: (started[rank], rank))
                late_ps[last].append(started[last] - started[second])
        for rank, late in sorted(late_ps.items()):
            late = [ps for ps in late if ps]
            enough = len(late) >= max(FEWEST, _NEARLY_ALL * took_part[rank])
            if enough and sum(late) / PS > _LATE * makespan_s:
                return (
                    f"rank {rank} comes last to {len(late)} of its {took_part[rank]} collectives, "
                    f"typically by {format_time(median(late) / PS)}: the others wait for it"
                )
        return ""


def recorded(
    trace: Trace,
    machine: Machine,
    joined: Iterable[Joined],
    groups: Mapping[str, tuple[int, ...]],
    *,
    gone: Collection[int] = (),
    last: int = 64,
    latency_seed: int | None = None,
) -> FlightRecorder:
    """What the flight recorders hold after a run.

    Args:
        joined: the calls of collectives, in any order.
        groups: path of each communicator -> its ranks.
        gone: ranks that have left nothing.
        last: records that a rank keeps.
    """
    engine = engine_of(trace, machine, latency_seed)
    engine.calls = {}
    engine.run()
    calls = engine.calls
    of_rank: dict[int, list[Joined]] = {rank: [] for rank in range(trace.world_size)}
    for call in sorted(joined):
        if (call.rank, call.op) in calls:  # else the rank's clock hasn't come to it
            of_rank[call.rank].append(call)
    dumps = {}
    for rank, mine in of_rank.items():
        if rank in gone:
            continue
        before: dict[str, int] = {}  # group -> when its last one was complete; -1: it isn't
        records = []
        for call in mine:
            created, request = calls[rank, call.op]
            record = _record(call, trace.ops[rank][call.op], created, request.done, before)
            before[call.comm] = record["completed_ps"]
            records.append(record)
        dumps[rank] = records[-last:] if last else []
    named = {record["group"] for records in dumps.values() for record in records}
    return FlightRecorder(dumps, {path: groups[path] for path in groups if path in named})


def _record(call: Joined, op: Op, created: int, done: int, before: Mapping[str, int]) -> Record:
    """One call as it stands at the end."""
    ahead = before.get(call.comm, created)
    # A collective that ends with an error, as its detail's sixth entry says, is never complete;
    # nor is one behind it.
    complete = op.kind == Kind.COLLECTIVE and len(op.detail) == 5 and min(done, ahead) >= 0
    state = COMPLETED if complete else SCHEDULED if ahead < 0 else STARTED
    started = -1 if state == SCHEDULED else max(created, ahead)
    return {
        "group": call.comm,
        "seq": call.sequence + 1,
        "op": call.name,
        "dtype": str(call.dtype),
        "count": call.count,
        "state": state,
        "created_ps": created,
        "started_ps": started,
        "completed_ps": max(done, started) if complete else -1,
    }
