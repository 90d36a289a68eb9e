"""Brackets over the rows: the phases that a program names, from the first rank to the last.

  |-- reduce-scatter --|----- all-gather -----|
rank 0  ...
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ringside.draw.bar_colors import way_of
from ringside.draw.layout import Layout
from ringside.draw.page import num, shorten, text, text_width
from ringside.draw.palette import LIGHT

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable

LANE_HEIGHT = 19.0
MOST_LANES = 3
MOST_BRACKETS = 40


class Bracket(NamedTuple):
    """A phase and when some rank is in it."""

    start_s: float
    end_s: float
    name: str


def lanes(timeline: Drawable) -> list[list[Bracket]]:
    """Brackets above each other where they overlap by more than a fifth; none if too many."""
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for spans in timeline.spans:
        for span in spans:
            # A microbatch's passes are told by hue and shade.
            if span.phase and not way_of(span.phase)[0] and span.end_s > span.start_s:
                times[span.phase].append((span.start_s, span.end_s))
    gap = timeline.makespan_s / 200
    brackets = sorted(
        Bracket(*stretch, name) for name, all_of in times.items() for stretch in merged(all_of, gap)
    )
    if len(brackets) > MOST_BRACKETS:
        return []
    rows: list[list[Bracket]] = []
    for bracket in brackets:
        for row in rows:
            last = row[-1]
            shorter = min(last.end_s - last.start_s, bracket.end_s - bracket.start_s)
            if last.end_s - bracket.start_s <= 0.2 * shorter:
                middle = (last.end_s + bracket.start_s) / 2
                if last.end_s > bracket.start_s:  # ranks aren't in step: meet in the middle
                    row[-1] = last._replace(end_s=middle)
                    bracket = bracket._replace(start_s=middle)
                row.append(bracket)
                break
        else:
            rows.append([bracket])
    return rows if len(rows) <= MOST_LANES else []


def merged(stretches: Iterable[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Stretches of time of any rank as one where they touch."""
    result: list[tuple[float, float]] = []
    for start, end in sorted(stretches):
        if result and start <= result[-1][1] + gap:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((start, end))
    return result


def draw_brackets(rows: list[list[Bracket]], layout: Layout) -> Iterable[str]:
    """The brackets, the first lane nearest to the rows."""
    for number, row in enumerate(rows):
        y = layout.top - 6 - number * LANE_HEIGHT
        for start_s, end_s, name in row:
            x1, x2 = layout.x(start_s) + 1, layout.x(end_s) - 1
            yield (
                f'<path class="rs-muted-line rs-quiet" d="M{num(x1)} {num(y + 4)}v-4H{num(x2)}v4" '
                f'fill="none" stroke="{LIGHT.muted}"/>'
            )
            label = shorten(name, x2 - x1, 11)
            if len(label) > 3 or (label == name and text_width(label, 11) <= x2 - x1):
                yield text((x1 + x2) / 2, y - 4, label, 11, extra='text-anchor="middle"')
