"""From kills that are asked for to deaths that the network carries out."""

from __future__ import annotations

from ringside.errors import TargetError
from ringside.failures import Failures, Kill
from ringside.network.deaths import Death
from ringside.timing.machine import Machine
from ringside.timing.ports import PS
from ringside.timing.timeline import Timeline
from ringside.trace import UNDESCRIBED, Kind
from ringside.units import format_time


def ranks_of(kill: Kill, world_size: int, machine: Machine) -> list[int]:
    """The ranks that die of a kill.

    Raises:
        TargetError: there are none.
    """
    ranks = [
        rank
        for rank in range(world_size)
        if kill.rank in (rank, -1) and kill.node in (machine.node(rank), -1)
    ]
    if not ranks:
        raise TargetError(f"kill {kill}: there is no such rank among {world_size}.")
    return ranks


def death_of(rank: int, kill: Kill, timeline: Timeline, failures: Failures) -> Death:
    """The death of one rank, on the timeline of a run without it.

    Raises:
        TargetError: the rank had returned before.
    """
    ops, spans = timeline.trace.ops[rank], timeline.stretches(rank)
    if kill.op is not None:
        op = kill.op - 1
        before = [span for span in spans if span.op < op]
        time_ps = before[-1].end if before else 0
        if op > len(ops):
            raise TargetError(f"kill {kill}: rank {rank} has {len(ops)} operations in this run.")
    else:
        time_ps = round((kill.at_s or 0.0) * PS)
        later = [span for span in spans if span.end > time_ps or span.end < 0]
        if not later:
            raise TargetError(
                f"kill {kill}: rank {rank} had returned at {format_time(timeline.end_s[rank])}."
            )
        # What lies between two stretches takes no time, and is done before the later one.
        op = later[0].op
    waits = {number: at for at, o in enumerate(ops) if o.kind == Kind.WAIT for number in o.detail}
    lost, broken = set(), set()
    for index, posted in enumerate(ops[:op]):
        if posted.kind == Kind.ISEND and failures.in_flight == "lost":
            if not 0 <= timeline.arrived_ps(posted.message) <= time_ps:
                lost.add(index)
        elif posted.kind == Kind.COLLECTIVE and waits.get(posted.request, len(ops)) >= op:
            broken.add(index)
    site = timeline.trace.site_of(ops[op]) if op < len(ops) else UNDESCRIBED
    call = "" if site is UNDESCRIBED else f"{site.call} at {site.where}"
    return Death(rank, op, time_ps, frozenset(lost), frozenset(broken), call)
