"""What a timeline consists of: stretches of ranks' time, and messages on their way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A stretch of one rank's time. ``kind`` is "compute", "communication" or "idle".

    ``phase`` and ``item`` are what the program named with ``ringside.phase``.
    """

    rank: int
    start_s: float
    end_s: float
    kind: str
    label: str
    site: str
    phase: str = ""
    item: str = ""


@dataclass(frozen=True)
class TimedMessage:
    """A message's way: posted, leaves the sender's port at start, complete at end.

    ``item`` is what the sender says that it carries, with ``ringside.phase``.
    """

    source: int
    dest: int
    tag: int
    nbytes: int
    posted_s: float
    start_s: float
    end_s: float
    site: str
    item: str = ""
