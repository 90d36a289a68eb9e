"""A ring all-reduce that moves, and its steps side by side where nothing moves.

    moving                              at rest, and on paper
    rank 0 [ ][ ][ ][ ]                 start     step 1    step 2
       |  60                            ....      ....      ....
    rank 1 [ ][ ][ ][ ]                 step 3    step 4    step 5 ...

Both views have one place in one SVG. SMIL moves the first, so that the picture needs no script and
no names that other pictures on the page could have; the style hides it for readers who ask for
less motion, and in print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ringside.draw.cells import Cell, cell, wrapped
from ringside.draw.page import num, open_svg, text
from ringside.draw.palette import LIGHT

WIDTH = 640.0
SLOT_S = 2.4  # of one step
_STYLE = (
    "<style>.rs-still{display:none}"
    "@media (prefers-reduced-motion:reduce){.rs-moving{display:none}.rs-still{display:inline}}"
    "@media print{.rs-moving{display:none}.rs-still{display:inline}}</style>"
)


@dataclass(frozen=True)
class Sent:
    """A message of a step: whose cell it is taken from, and into whose cell it goes."""

    source: int
    dest: int
    shard: int


@dataclass(frozen=True)
class Step:
    """What all ranks hold after a step, and how they came to it.

    Attributes:
        title: above the cells.
        words: a sentence or two on the step that comes next, or on the end.
        rows: per rank, its shards.
        sent: the messages of this step; none of the first one.
    """

    title: str
    words: str
    rows: Sequence[Sequence[Cell]]
    sent: Sequence[Sent] = ()


def steps_svg(title: str, steps: Sequence[Step]) -> str:
    """Draw steps one after another in one place; side by side where nothing moves.

    Args:
        title: a line above.
        steps: what is held at first, and after each step.
    """
    num_ranks = len(steps[0].rows)
    still, still_height = _side_by_side(steps)
    height = 40 + max(still_height, 80.0 + 60 * num_ranks)
    parts = _one_after_another(steps, height)
    alt = f"{title}. " + " ".join(
        f"{step.title}: "
        + "; ".join(
            f"rank {rank} holds {' '.join(content.words for content in row)}"
            for rank, row in enumerate(step.rows)
        )
        + "."
        for step in (steps[0], steps[num_ranks - 1], steps[-1])
    )
    return "".join(
        (
            open_svg(WIDTH, height, alt, kind="ringside-picture"),
            _STYLE,
            text(16, 27, title, 17, extra='font-weight="600"'),
            f'<g class="rs-moving">{"".join(parts)}</g>',
            f'<g class="rs-still" display="none">{"".join(still)}</g>',
            "</svg>",
        )
    )


def _side_by_side(steps: Sequence[Step]) -> tuple[list[str], float]:
    """All steps, three in a row; what a step has changed has a rim."""
    num_ranks, num_shards = len(steps[0].rows), len(steps[0].rows[0])
    columns, left, pitch = 3, 22.0, 30.0
    room = (WIDTH - 28) / columns
    wide = min(44.0, (room - left - 12) / num_shards)
    high = 34 + num_ranks * pitch
    parts = []
    for number, step in enumerate(steps):
        x = 14 + (number % columns) * room
        y = 44 + (number // columns) * high
        parts.append(text(x + left, y + 14, step.title, 13, extra='font-weight="600"'))
        changed = {(sent.dest, sent.shard) for sent in step.sent}
        for rank, row in enumerate(step.rows):
            top = y + 22 + rank * pitch
            parts.append(text(x + left - 7, top + 17, str(rank), 12, role="muted",
                              extra='text-anchor="end"'))  # fmt: skip
            for shard, content in enumerate(row):
                at = x + left + shard * wide
                parts.append(cell(at, top, wide - 4, pitch - 5, content, 13.5))
                if (rank, shard) in changed:
                    parts.append(
                        f'<rect class="rs-ink-line" x="{num(at)}" y="{num(top)}" '
                        f'width="{num(wide - 4)}" height="{num(pitch - 5)}" rx="3" fill="none" '
                        f'stroke="{LIGHT.ink}" stroke-width="1.6"/>'
                    )
    return parts, high * (-(-len(steps) // columns)) + 8


def _one_after_another(steps: Sequence[Step], bottom: float) -> list[str]:
    """A frame for each step; while it lasts the messages of the next step travel."""
    num_ranks, num_shards = len(steps[0].rows), len(steps[0].rows[0])
    slots = len(steps) + 1  # the last one is seen for twice as long
    left, top, high = 96.0, 104.0, 46.0
    pitch = (bottom - top - high - 20) / max(1, num_ranks - 1)
    wide = (WIDTH - left - 8) / (num_shards + 1)  # room at the right, for the way round
    parts = [
        text(left - 14, top + rank * pitch + high / 2 + 6, f"rank {rank}", 17, role="muted",
             extra='text-anchor="end"')
        for rank in range(num_ranks)
    ]  # fmt: skip

    def corner(rank: int, shard: int) -> tuple[float, float]:
        return left + shard * wide, top + rank * pitch

    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        start, stop = number / slots, 1.0 if last else (number + 1) / slots
        drawn = [text(16, 58, step.title, 16, extra='font-weight="600"')]
        drawn += [
            text(16, 79 + 18 * k, line, 14, role="muted")
            for k, line in enumerate(wrapped(step.words, WIDTH - 32, 14)[:1])
        ]
        coming = () if last else steps[number + 1].sent
        for rank, row in enumerate(step.rows):
            for shard, content in enumerate(row):
                drawn.append(cell(*corner(rank, shard), wide - 8, high, content, 19))
        for sent in coming:
            drawn.append(_travelling(sent, step, corner, wide - 8, high, (start, stop), slots))
        seen = _seen(start, stop, slots)
        parts.append(f'<g opacity="{int(number == 0)}">{seen}{"".join(drawn)}</g>')
    return parts


def _duration(slots: int) -> str:
    return f'dur="{num(slots * SLOT_S)}s" repeatCount="indefinite"'


def _seen(start: float, stop: float, slots: int) -> str:
    """Seen from `start` to `stop`, which are parts of a round."""
    # SMIL: the keyTimes of a discrete animation begin at 0 and may end before 1; of a linear one
    # they end at 1.
    values, times = ["0", "1", "0"], ["0", f"{start:.4f}", f"{stop:.4f}"]
    if start == 0:
        values, times = values[1:], ["0", f"{stop:.4f}"]
    if stop == 1:
        values, times = values[:-1], times[:-1]
    return (
        f'<animate attributeName="opacity" calcMode="discrete" values="{";".join(values)}" '
        f'keyTimes="{";".join(times)}" {_duration(slots)}/>'
    )


def _travelling(
    sent: Sent, step: Step, corner: Callable[[int, int], tuple[float, float]], width: float,
    height: float, seen: tuple[float, float], slots: int,
) -> str:  # fmt: skip
    """A copy of a cell on its way to the next rank, around the end of the ring at the right."""
    (x1, y1), (x2, y2) = corner(sent.source, sent.shard), corner(sent.dest, sent.shard)
    start, stop = seen
    leave, arrive = start + 0.35 * (stop - start), start + 0.95 * (stop - start)
    way = [(0.0, 0.0), (x2 - x1, y2 - y1)]
    if sent.dest < sent.source:  # round the ring: beside the cells, not over them
        aside = WIDTH - 12 - width - x1
        way = [(0.0, 0.0), (aside, 0.0), (aside, y2 - y1), way[-1]]
    times = [leave + (arrive - leave) * k / (len(way) - 1) for k in range(len(way))]
    values = [f"{num(dx)} {num(dy)}" for dx, dy in (way[0], *way, way[-1])]
    keys = ["0", *(f"{time:.4f}" for time in times), "1"]
    rim = (
        f'<rect class="rs-ink-line" x="{num(x1)}" y="{num(y1)}" width="{num(width)}" '
        f'height="{num(height)}" rx="3" fill="none" stroke="{LIGHT.ink}" stroke-width="2"/>'
    )
    return (
        f"<g>{cell(x1, y1, width, height, step.rows[sent.source][sent.shard], 19)}{rim}"
        f'<animateTransform attributeName="transform" type="translate" '
        f'values="{";".join(values)}" keyTimes="{";".join(keys)}" {_duration(slots)}/></g>'
    )
