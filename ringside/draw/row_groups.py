"""Many ranks in few rows: those that behave alike are one row, or rows share out the time.

ranks 0 to 7    8 alike   |forward|..|comm|      one of them is drawn
ranks 8 to 15   8 alike   |...

ranks 0 to 15   at each time, how many of them compute, communicate or are idle
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ringside.draw.bar_colors import tone_of
from ringside.draw.layout import Layout
from ringside.draw.page import num
from ringside.draw.palette import LIGHT

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable
    from ringside.spans import Span

FEWEST = 17  # ranks that are put together at all
MOST_KINDS = 24
MOST_ROWS = 32
TIME_BINS = 160
STACK = ("compute", "forward", "backward", "communication", "idle")  # from below


def role(span: Span) -> str:
    """What a span is, whatever it carries."""
    name = tone_of(span).role
    return "communication" if name == "item" else name


def kinds_of_ranks(timeline: Drawable) -> dict[int, list[int]]:
    """The first rank of each kind -> all ranks that do the same at the same times.

    Times are the same to a 500th of the makespan, which nobody sees.
    """
    tolerance = (timeline.makespan_s or 1.0) / 500
    kinds: dict[tuple[tuple[str, int], ...], list[int]] = defaultdict(list)
    for rank, spans in enumerate(timeline.spans):
        merged: list[tuple[str, float]] = []
        for span in spans:
            if span.end_s - span.start_s < tolerance / 4:
                continue
            if merged and merged[-1][0] == role(span):
                merged.pop()
            merged.append((role(span), span.end_s))
        kinds[tuple((name, round(end_s / tolerance)) for name, end_s in merged)].append(rank)
    return {ranks[0]: ranks for ranks in kinds.values()}


def ranges(ranks: Sequence[int]) -> str:
    """Ranks as a reader says them.

    >>> ranges([0]), ranges([0, 1, 2, 3]), ranges([0, 4, 8]), ranges([1, 3, 5, 7, 9])
    ('rank 0', 'ranks 0 to 3', 'ranks 0, 4, 8', 'ranks 1, 3, 5, ...')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and all(b - a == 1 for a, b in pairwise(ranks)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = ", ..." if len(ranks) > 3 else ""
    return f"ranks {', '.join(map(str, ranks[:3]))}{more}"


def bins_of_ranks(world_size: int) -> list[range]:
    """Neighbours that share a row."""
    size = -(-world_size // MOST_ROWS)
    return [range(lo, min(lo + size, world_size)) for lo in range(0, world_size, size)]


def shares_over_time(timeline: Drawable, ranks: Iterable[int], until_s: float) -> np.ndarray:
    """Shape (TIME_BINS, len(STACK)): of the ranks' time in each bin, the part of each role."""
    width = (until_s or 1.0) / TIME_BINS
    total = np.zeros((TIME_BINS, len(STACK)))
    count = 0
    for rank in ranks:
        count += 1
        for span in timeline.spans[rank]:
            column = STACK.index(role(span))
            first = min(TIME_BINS - 1, int(span.start_s / width))
            last = min(TIME_BINS - 1, int(span.end_s / width))
            if first == last:
                total[first, column] += span.end_s - span.start_s
                continue
            total[first, column] += (first + 1) * width - span.start_s
            total[first + 1 : last, column] += width
            total[last, column] += span.end_s - last * width
    part = total / (width * max(1, count))
    part[:, STACK.index("idle")] += np.maximum(0.0, 1.0 - part.sum(axis=1))  # after its end
    return part


def shares_rows(timeline: Drawable, bins: Sequence[range], layout: Layout) -> Iterable[str]:
    """A row for each bin: at each time the height of a colour is the share of the ranks."""
    step = (layout.right - layout.left) / TIME_BINS
    for ranks in bins:
        part = shares_over_time(timeline, ranks, layout.until_s)
        y = layout.y(ranks[0])
        tops = np.cumsum(part, axis=1) * layout.bar
        tooltip = ", ".join(
            f"{name} {100 * share:.0f} %"
            for name, share in zip(STACK, part.mean(axis=0), strict=True)
            if share >= 0.005
        )
        yield (
            f'<g class="rs-row" data-rank="{ranks[0]}">'
            f"<title>{escape(ranges(ranks), quote=False)} over the whole time\n{tooltip}</title>"
            '<g class="rs-time">'
        )
        for column, name in enumerate(STACK):
            if not part[:, column].any():
                continue
            upper = tops[:, column]
            lower = upper - part[:, column] * layout.bar
            yield (
                f'<path class="rs-{name}" fill="{getattr(LIGHT, name)}" '
                f'd="{_area(layout.left, y + layout.bar, step, lower, upper)}"/>'
            )
        yield "</g></g>"


def _area(left: float, bottom: float, step: float, lower: np.ndarray, upper: np.ndarray) -> str:
    """A closed path between two stairs; runs of equal height are one step."""
    cuts = [0, *(np.flatnonzero(np.diff(lower) != 0) + 1), *(np.flatnonzero(np.diff(upper)) + 1)]
    edges = [*sorted(set(map(int, cuts))), len(lower)]
    steps = list(pairwise(edges))
    there = [f"V{num(bottom - upper[lo])}H{num(left + hi * step)}" for lo, hi in steps]
    # The way back goes over the lower stairs, from the right to the left.
    back = [f"V{num(bottom - lower[lo])}H{num(left + lo * step)}" for lo, _ in reversed(steps)]
    return f"M{num(left)} {num(bottom - lower[0])}{''.join(there)}{''.join(back)}z"
