"""What joins the rows of a timeline's picture: messages and the critical path."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from ringside.draw.layout import Layout
from ringside.draw.page import fine, num
from ringside.draw.palette import KINDS, LIGHT
from ringside.units import bytes_in, format_count, format_interval, format_time

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable
    from ringside.spans import TimedMessage

MOST_RANKS_WITH_ARROWS = 16
MOST_ARROWS = 500
MOST_FAR_ARROWS = 60  # above the bars; more would hide them
MOST_STEPS = 24  # of the critical path, in words
MOST_FAINT_LINES = 12_000  # a line without hover text takes some 25 bytes


def _ends(message: TimedMessage, layout: Layout) -> tuple[float, float, float, float]:
    """A message's line, from the edge of the sender's bar to the facing edge of the receiver's."""
    down = layout.y(message.dest) > layout.y(message.source)
    y1 = layout.y(message.source) + (layout.bar if down else 0)
    y2 = layout.y(message.dest) + (0 if down else layout.bar)
    return layout.x(message.start_s), y1, layout.x(message.end_s), y2


def _arrow(message: TimedMessage, layout: Layout, unit: tuple[float, str], base: int) -> str:
    x1, y1, x2, y2 = _ends(message, layout)
    length = max(1e-6, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    head, half = 6.0, 2.6
    bx, by = x2 - head * ux, y2 - head * uy
    site = f" · {message.site}" if message.site else ""
    carried = f" ({message.item})" if message.item else ""
    tooltip = (
        f"message from rank {message.source} to rank {message.dest}, tag {message.tag}, "
        f"{bytes_in(base, message.nbytes)}{carried}{site}\n"
        f"on the wire {format_interval(message.start_s, message.end_s, unit)}"
    )
    line = f"M{fine(x1)} {num(y1)}L{fine(bx)} {num(by)}"
    tip = (
        f"M{fine(x2)} {num(y2)}L{num(bx - half * uy)} {num(by + half * ux)}"
        f"L{num(bx + half * uy)} {num(by - half * ux)}z"
    )
    # The first path is wide and unseen: a pointer meets it more easily than the thin line.
    return (
        f'<g class="rs-message"><title>{escape(tooltip, quote=False)}</title>'
        f'<path d="{line}" stroke="#000" stroke-opacity="0" stroke-width="7"/>'
        f'<path class="rs-muted-line" d="{line}" stroke="{LIGHT.muted}" stroke-width="1.1" '
        f'opacity=".75"/><path class="rs-muted" d="{tip}" fill="{LIGHT.muted}" opacity=".85"/></g>'
    )


def draws_arrows(timeline: Drawable, num_rows: int) -> bool:
    """Whether each message gets an arrow with hover text, or all of them faint lines."""
    return num_rows <= MOST_RANKS_WITH_ARROWS and len(timeline.messages) <= MOST_ARROWS


def reaches_far(message: TimedMessage, layout: Layout) -> bool:
    """Whether a message passes over other rows; then its arrow lies above their bars."""
    return abs(layout.rows[message.source] - layout.rows[message.dest]) > 1


def far_messages(
    timeline: Drawable, layout: Layout, unit: tuple[float, str], base: int
) -> Iterable[str]:
    """The arrows that lie above the bars, in one piece, on a clear halo."""
    visible = [m for m in timeline.messages if m.source in layout.rows and m.dest in layout.rows]
    far = [message for message in visible if reaches_far(message, layout)]
    if not draws_arrows(timeline, len(layout.rows)) or len(far) > MOST_FAR_ARROWS:
        return
    for message in far:
        x1, y1, x2, y2 = _ends(message, layout)
        yield (
            f'<path class="rs-paper-line rs-quiet" d="M{num(x1)} {num(y1)}L{num(x2)} {num(y2)}" '
            f'stroke="{LIGHT.paper}" stroke-width="2.8" opacity=".7"/>'
        )
        yield _arrow(message, layout, unit, base)


def messages(
    timeline: Drawable, layout: Layout, unit: tuple[float, str], base: int
) -> Iterable[str]:
    """The arrows or faint lines that lie beneath the bars."""
    visible = [m for m in timeline.messages if m.source in layout.rows and m.dest in layout.rows]
    visible = [m for m in visible if m.source != m.dest]
    if draws_arrows(timeline, len(layout.rows)):
        far = sum(reaches_far(message, layout) for message in visible)
        yield "".join(
            _arrow(message, layout, unit, base)
            for message in visible
            if far > MOST_FAR_ARROWS or not reaches_far(message, layout)
        )
    elif len(visible) <= MOST_FAINT_LINES:
        lines = []
        for message in visible:
            x1, y1, x2, y2 = _ends(message, layout)
            lines.append(f"M{num(x1)} {num(y1)}L{num(x2)} {num(y2)}")
        opacity = max(0.05, min(0.35, 120 / (len(visible) + 1)))
        yield (
            f'<path class="rs-ink-line rs-quiet" d="{"".join(lines)}" fill="none" '
            f'stroke="{LIGHT.ink}" stroke-width=".7" opacity="{opacity:.2f}"/>'
        )


def path_in_words(timeline: Drawable, unit: tuple[float, str]) -> str:
    """The critical path as lines: what it is made of, then its steps, those alike in one line."""
    path = timeline.critical_path
    seconds = {
        kind: sum(span.end_s - span.start_s for span in path if span.kind == kind) for kind in KINDS
    }
    parts = " + ".join(f"{format_time(s, unit)} {kind}" for kind, s in seconds.items() if s)
    lines = [f"critical path, {format_count(len(path), 'step')}: {parts}"]
    alike = [
        list(steps)
        for _, steps in groupby(enumerate(path, 1), lambda step: (step[1].rank, step[1].label))
    ]
    for steps in alike[:MOST_STEPS]:
        (first, span), (last, end) = steps[0], steps[-1]
        numbers = f"{first}." if first == last else f"{first} to {last}."
        words = " · ".join(filter(None, (f"rank {span.rank}", span.label, span.site)))
        lines.append(f"{numbers} {words}, {format_interval(span.start_s, end.end_s, unit)}")
    if rest := sum(len(steps) for steps in alike[MOST_STEPS:]):
        lines.append(f"and {format_count(rest, 'more step')}")
    return "\n".join(lines)


def critical_path(timeline: Drawable, layout: Layout, unit: tuple[float, str]) -> Iterable[str]:
    """A line along the lower edge of the bars that decide the makespan, on a clear halo."""
    points: list[str] = []
    for span in timeline.critical_path:
        if span.rank not in layout.rows:
            continue
        y = num(layout.y(span.rank) + layout.bar - 1)
        start = f"{fine(layout.x(span.start_s))} {y}"
        points.append(f"{'L' if points else 'M'}{start}H{fine(layout.x(span.end_s))}")
    if not points:
        return
    line = "".join(points)
    yield (
        f'<g class="rs-time rs-path">'
        f"<desc>{escape(path_in_words(timeline, unit), quote=False)}</desc>"
    )
    thick = 2.2 if layout.pitch >= 16 else 1.5
    for name, stroke, stroke_width in (
        ("paper", LIGHT.paper, thick + 2),
        ("ink", LIGHT.ink, thick),
    ):
        yield (
            f'<path class="rs-{name}-line rs-quiet" d="{line}" fill="none" stroke="{stroke}" '
            f'stroke-width="{num(stroke_width)}" stroke-linejoin="round"/>'
        )
    yield "</g>"
