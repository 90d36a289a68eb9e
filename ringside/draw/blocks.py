"""Cut a rank's spans into blocks that can be seen, and say what happened in each.

    spans   |c|c|c|c|.idle.........|c|c|     twelve hundred calls on nine hundred pixels
    blocks  |  4 c  |     idle     | 2c|     what a reader can tell apart, and hover over

Spans wider than a threshold stay alone. Narrower neighbours of one kind become one block; what is
still narrower after that is gathered whatever its kind and takes the kind that fills most of it.
No time is lost: the blocks cover exactly what the spans cover.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ringside.draw.bar_colors import Tone, tone_of
from ringside.draw.palette import KINDS
from ringside.units import bytes_in, format_interval

if TYPE_CHECKING:
    from ringside.spans import Span, TimedMessage


@dataclass(frozen=True)
class Block:
    """Successive spans of a rank that are drawn as one bar."""

    rank: int
    start_s: float
    end_s: float
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each kind in it."""
        total = dict.fromkeys(KINDS, 0.0)
        for span in self.spans:
            total[span.kind] += span.end_s - span.start_s
        return total

    @property
    def kind(self) -> str:
        """The kind that fills most of it."""
        seconds = self.seconds
        return max(KINDS, key=lambda kind: (seconds[kind], -KINDS.index(kind)))

    @property
    def tone(self) -> Tone:
        """Of its kind, the tone that fills most of it."""
        if len(self.spans) == 1:
            return tone_of(self.spans[0])
        total: Counter[Tone] = Counter()
        kind = self.kind
        for span in self.spans:
            if span.kind == kind:
                total[tone_of(span)] += span.end_s - span.start_s  # type: ignore[assignment]
        return total.most_common(1)[0][0]


def _gather(blocks: Sequence[Block], narrow_s: float, *, same_kind: bool) -> list[Block]:
    """Join neighbours while both are narrower than `narrow_s`."""
    groups: list[list[Block]] = []
    for block in blocks:
        group = groups[-1] if groups else None
        if (
            group is not None
            and group[-1].end_s - group[0].start_s < narrow_s
            and block.end_s - block.start_s < narrow_s
            and group[-1].end_s >= block.start_s
            and (not same_kind or group[0].kind == block.kind)
        ):
            group.append(block)
        else:
            groups.append([block])
    return [_joined(group) for group in groups]


def _joined(group: Sequence[Block]) -> Block:
    """One block in the place of several; put together once, since a group may have a million."""
    if len(group) == 1:
        return group[0]
    spans = tuple(span for block in group for span in block.spans)
    return Block(group[0].rank, group[0].start_s, group[-1].end_s, spans)


def cut(spans: Iterable[Span], narrow_s: float) -> list[Block]:
    """The blocks of one rank; `narrow_s` is the duration below which a span can't be seen."""
    blocks = [
        Block(span.rank, span.start_s, span.end_s, (span,))
        for span in spans
        if span.end_s > span.start_s
    ]
    return _gather(_gather(blocks, narrow_s, same_kind=True), narrow_s, same_kind=False)


def cut_all(
    spans: Sequence[Sequence[Span]], narrow_s: float, *, most: int
) -> tuple[list[list[Block]], float]:
    """The blocks of every rank, at most about `most` of them, and the threshold that it took."""
    while True:
        blocks = [cut(row, narrow_s) for row in spans]
        if narrow_s <= 0 or sum(len(row) for row in blocks) <= most:
            return blocks, narrow_s
        narrow_s *= 1.5


class Traffic:
    """The messages of every rank in order of completion, to be asked for by interval.

    Args:
        base: 1000 or 1024, of the units in which bytes are told.
    """

    def __init__(self, messages: Iterable[TimedMessage], base: int = 1000) -> None:
        self.base = base
        self._ends: dict[tuple[int, str], list[float]] = defaultdict(list)
        self._messages: dict[tuple[int, str], list[TimedMessage]] = defaultdict(list)
        for message in sorted(messages, key=lambda m: (m.end_s, m.start_s, m.source, m.dest)):
            for key in ((message.source, "sent"), (message.dest, "received")):
                self._ends[key].append(message.end_s)
                self._messages[key].append(message)

    def during(self, rank: int, way: str, start_s: float, end_s: float) -> list[TimedMessage]:
        """What `rank` has "sent" or "received" that was complete in the interval (start, end]."""
        ends = self._ends.get((rank, way), [])
        first, stop = bisect.bisect_right(ends, start_s), bisect.bisect_right(ends, end_s)
        return self._messages.get((rank, way), [])[first:stop]


def _peers(ranks: Iterable[int]) -> str:
    peers = sorted(set(ranks))
    if len(peers) == 1:
        return f"rank {peers[0]}"
    if len(peers) > 4 and all(b - a == 1 for a, b in pairwise(peers)):
        return f"ranks {peers[0]} to {peers[-1]}"
    names = ", ".join(str(rank) for rank in peers[:6])
    return f"ranks {names}" + (f" and {len(peers) - 6} more" if len(peers) > 6 else "")


def _traffic_line(messages: Sequence[TimedMessage], way: str, base: int) -> str:
    nbytes = bytes_in(base, sum(message.nbytes for message in messages))
    peers = _peers(m.dest if way == "sent" else m.source for m in messages)
    number = f" in {len(messages)} messages" if len(messages) > 1 else ""
    items = list(dict.fromkeys(message.item for message in messages if message.item))
    carried = f" ({', '.join(items)})" if 0 < len(items) <= 4 else ""
    return f"{way} {nbytes}{carried}{number} {'to' if way == 'sent' else 'from'} {peers}"


def hover_text(block: Block, traffic: Traffic, unit: tuple[float, str]) -> str:
    """What a reader sees over a block: rank, call, line of the student's file, times, bytes."""
    calls = Counter((span.label, span.site) for span in block.spans)
    names = [
        " · ".join(part for part in (f"{n} × {label}" if n > 1 else label, site) if part)
        for (label, site), n in calls.most_common(3)
    ]
    more = f" and {len(calls) - 3} other calls" if len(calls) > 3 else ""
    seconds = block.seconds
    kinds = [kind for kind in KINDS if seconds[kind] > 0]
    what = ", ".join(
        kind if len(kinds) == 1 else f"{kind} {100 * seconds[kind] / sum(seconds.values()):.0f} %"
        for kind in kinds
    )
    phases = list(dict.fromkeys(span.phase for span in block.spans if span.phase))
    if 0 < len(phases) <= 3:
        more += f" · in {', '.join(phases)}"
    lines = [
        f"rank {block.rank} · " + "; ".join(name for name in names if name) + more,
        f"{what}, {format_interval(block.start_s, block.end_s, unit)}",
    ]
    for way in ("sent", "received"):
        messages = traffic.during(block.rank, way, block.start_s, block.end_s)
        if messages:
            lines.append(_traffic_line(messages, way, traffic.base))
    return "\n".join(lines)
