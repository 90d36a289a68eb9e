"""What the pictures read of a timeline, simulated or measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ringside.trace import UNDESCRIBED, Kind

if TYPE_CHECKING:
    from ringside.spans import Span, TimedMessage


class Drawable(Protocol):
    """The attributes of `ringside.timing.timeline.Timeline` that every timeline has.

    Four more are read where they exist: ``unfinished``, the ranks that never returned (with
    ``trace`` and ``end_s``), ``deaths_s``, when ranks were killed, ``slow``, how many times as long
    slow ranks compute, and ``time_label``, the words at the time axis.
    """

    world_size: int
    machine_name: str

    @property
    def makespan_s(self) -> float: ...
    @property
    def exposed_comm_s(self) -> float: ...
    @property
    def spans(self) -> Sequence[Sequence[Span]]: ...
    @property
    def messages(self) -> Sequence[TimedMessage]: ...
    @property
    def critical_path(self) -> Sequence[Span]: ...


def time_label(timeline: Drawable, unit: str) -> str:
    """The words at the time axis."""
    return f"{getattr(timeline, 'time_label', 'virtual time')} ({unit})"


def rank_label(timeline: Drawable, rank: int) -> str:
    """The words at a rank's row: its number, and its factor if it is slow."""
    factor = getattr(timeline, "slow", {}).get(rank)
    return f"rank {rank}" + (f" ({factor:g} ×)" if factor is not None else "")


def blocked_calls(timeline: Drawable) -> dict[int, tuple[float, str]]:
    """Of a run that could not end: rank -> from when on it is drawn as blocked, and in which call.

    What it waits while others still move is a bar of its own.
    """
    calls = {}
    for rank in getattr(timeline, "unfinished", ()):
        trace, end_s = timeline.trace, timeline.end_s[rank]  # type: ignore[attr-defined]
        end_s = max([end_s, *(span.end_s for span in timeline.spans[rank][-1:])])
        site = trace.site_of(trace.ops[rank][-1]) if trace.ops[rank] else UNDESCRIBED
        call = "unknown call" if site is UNDESCRIBED else f"{site.call} · {site.where}"
        if trace.ops[rank] and trace.ops[rank][-1].kind == Kind.HANG:
            call = f"hangs after {call}" if site is not UNDESCRIBED else "hangs"
        calls[rank] = (end_s, call)
    return calls
