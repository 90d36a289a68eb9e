"""From kills and hangs that are asked for to deaths that the network carries out; and flips."""

from __future__ import annotations

from collections.abc import Mapping

from ringside.errors import TargetError
from ringside.failures import Failures, Flip, Hang, Stop
from ringside.network.deaths import Death
from ringside.timing.machine import Machine
from ringside.timing.ports import PS
from ringside.timing.timeline import Timeline
from ringside.trace import UNDESCRIBED, Kind, Trace
from ringside.units import format_count, format_time


def ranks_of(stop: Stop, world_size: int, machine: Machine) -> list[int]:
    """The ranks that die, or hang.

    Raises:
        TargetError: there are none.
    """
    ranks = [
        rank
        for rank in range(world_size)
        if stop.rank in (rank, -1) and stop.node in (machine.node(rank), -1)
    ]
    if not ranks:
        raise TargetError(f"{stop.option} {stop}: there is no such rank among {world_size}.")
    return ranks


def death_of(rank: int, stop: Stop, timeline: Timeline, failures: Failures) -> Death:
    """The death of one rank, or its hang, on the timeline of a run without it.

    Raises:
        TargetError: the rank had returned before.
    """
    ops, spans = timeline.trace.ops[rank], timeline.stretches(rank)
    if stop.op is not None:
        op = stop.op - 1
        before = [span for span in spans if span.op < op]
        time_ps = before[-1].end if before else 0
        if op > len(ops):
            raise TargetError(
                f"{stop.option} {stop}: rank {rank} has {len(ops)} operations in this run."
            )
    else:
        time_ps = round((stop.at_s or 0.0) * PS)
        later = [span for span in spans if span.end > time_ps or span.end < 0]
        if not later:
            raise TargetError(
                f"{stop.option} {stop}: rank {rank} had returned at "
                f"{format_time(timeline.end_s[rank])}."
            )
        # What lies between two stretches takes no time, and is done before the later one.
        op = later[0].op
    site = timeline.trace.site_of(ops[op]) if op < len(ops) else UNDESCRIBED
    call = "" if site is UNDESCRIBED else f"{site.call} at {site.where}"
    if isinstance(stop, Hang):  # it is alive: what it has posted goes on
        return Death(rank, op, time_ps, call=call, hangs=True)
    waits = {number: at for at, o in enumerate(ops) if o.kind == Kind.WAIT for number in o.detail}
    lost, broken = set(), set()
    for index, posted in enumerate(ops[:op]):
        if posted.kind == Kind.ISEND and failures.in_flight == "lost":
            if not 0 <= timeline.arrived_ps(posted.message) <= time_ps:
                lost.add(index)
        elif posted.kind == Kind.COLLECTIVE and waits.get(posted.request, len(ops)) >= op:
            broken.add(index)
    return Death(rank, op, time_ps, frozenset(lost), frozenset(broken), call)


def check_flips(flips: Mapping[tuple[int, int], int], trace: Trace, ended: bool) -> None:
    """Each flip has hit a message.

    Args:
        ended: the run came to its end; otherwise a message may be missing for another reason.

    Raises:
        TargetError: there is no such rank, message or bit.
    """
    for (rank, number), bit in flips.items():
        flip = Flip(rank, number, bit)
        if rank >= trace.world_size:
            raise TargetError(f"flip {flip}: there is no rank {rank} among {trace.world_size}.")
        sent = [op.nbytes for op in trace.ops[rank] if op.kind == Kind.ISEND]
        if number > len(sent) and ended:
            told = format_count(len(sent), "message")
            raise TargetError(f"flip {flip}: rank {rank} sends {told} in this run.")
        if number <= len(sent) and bit >= 8 * sent[number - 1]:
            raise TargetError(f"flip {flip}: that message has {8 * sent[number - 1]} bits.")
