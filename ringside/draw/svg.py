"""The timeline of a run as one self-contained SVG, for notebooks and feedback pages.

    title
    facts: makespan, ranks, machine, bytes
    legend
    rank 0  |compute|communication|....idle....|   share of each kind
    rank 1  |       ...  \\  messages  \\          |
            0      20      40      60      80 µs

It carries its own background, style and hover text, and needs no script, font or file beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringside.draw.arrows import critical_path, draws_arrows, messages
from ringside.draw.drawable import blocked_calls, time_label
from ringside.draw.layout import SHARE_WIDTH, Layout, choose_rows, row_sizes
from ringside.draw.page import fit_lines, num, open_svg, shorten, text, text_width
from ringside.draw.palette import KINDS, LIGHT
from ringside.draw.rows import rank_rows, shares
from ringside.units import (
    format_bytes,
    format_count,
    format_time,
    round_ticks,
    three_digits,
    time_unit,
)

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable


def _facts(timeline: Drawable) -> list[str]:
    total = sum(message.nbytes for message in timeline.messages)
    facts = [
        f"makespan {format_time(timeline.makespan_s)}",
        format_count(timeline.world_size, "rank"),
        f"{timeline.machine_name} machine",
    ]
    # Of the collectives of a real run, which has a label of its own, nobody sees the messages.
    if timeline.messages or not hasattr(timeline, "time_label"):
        facts += [format_count(len(timeline.messages), "message"), format_bytes(total)]
    if blocked_calls(timeline):
        facts[0] = f"stands still at {format_time(timeline.makespan_s)}"
    if timeline.exposed_comm_s > 0:
        facts.append(f"exposed communication {format_time(timeline.exposed_comm_s)}")
    return facts


def alt_text(timeline: Drawable) -> str:
    """The picture in words, for those who can't see it."""
    ranks = range(timeline.world_size)
    means = {
        kind: sum(shares(timeline, rank)[kind] for rank in ranks) / max(1, timeline.world_size)
        for kind in KINDS
    }
    mean = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in means.items())
    blocked = [
        f" Rank {rank} is blocked in {call}." for rank, (_, call) in blocked_calls(timeline).items()
    ]
    path = timeline.critical_path
    ends = f" The critical path ends on rank {path[-1].rank}." if path else ""
    return f"Timeline: {', '.join(_facts(timeline))}. Mean over the ranks: {mean}.{ends}" + "".join(
        blocked[:8]
    )


def _grid(timeline: Drawable, layout: Layout, unit: tuple[float, str]) -> Iterable[str]:
    ticks = round_ticks(layout.until_s / unit[0], int((layout.right - layout.left) / 90))
    bottom = layout.bottom + 4
    lines = "".join(
        f"M{num(layout.x(tick * unit[0]))} {num(layout.top)}V{num(bottom)}" for tick in ticks
    )
    yield f'<path class="rs-grid-line rs-quiet" d="{lines}" stroke="{LIGHT.grid}"/>'
    end = num(layout.x(timeline.makespan_s))
    yield (
        f'<path class="rs-muted-line rs-quiet" d="M{end} {num(layout.top)}V{num(bottom)}" '
        f'stroke="{LIGHT.muted}" stroke-dasharray="3 3"/>'
    )
    for tick in ticks:
        x = layout.x(tick * unit[0])
        yield text(
            x, bottom + 14, three_digits(tick), 11, role="muted", extra='text-anchor="middle"'
        )
    middle = (layout.left + layout.edge) / 2
    yield text(
        middle,
        bottom + 31,
        time_label(timeline, unit[1]),
        11,
        role="muted",
        extra='text-anchor="middle"',
    )


def _legend(x: float, y: float, timeline: Drawable, arrows: bool) -> tuple[str, float]:
    """Swatches from `x` to the right; returns them and where they end."""
    parts = []
    for kind in KINDS:
        parts.append(
            f'<rect class="rs-{kind}" x="{num(x)}" y="{num(y - 9)}" width="14" height="10" '
            f'rx="1.5" fill="{getattr(LIGHT, kind)}"/>' + text(x + 19, y, kind, 11, role="muted")
        )
        x += 19 + text_width(kind, 11) + 12
    lines = [("message", "muted-line", LIGHT.muted, 1.2)] if timeline.messages else []
    if timeline.critical_path:
        lines.append(("critical path", "ink-line", LIGHT.ink, 2.4))
    for name, line, stroke, stroke_width in lines:
        parts.append(
            f'<path class="rs-{line}" d="M{num(x)} {num(y - 4)}h16" stroke="{stroke}" '
            f'stroke-width="{num(stroke_width)}"/>' + text(x + 21, y, name, 11, role="muted")
        )
        if name == "message" and arrows:
            parts.append(
                f'<path class="rs-muted" d="M{num(x + 17)} {num(y - 4)}l-6 -2.6v5.2z" '
                f'fill="{LIGHT.muted}"/>'
            )
        x += 21 + text_width(name, 11) + 12
    return "".join(parts), x


def timeline_svg(
    timeline: Drawable,
    *,
    width: float = 900,
    max_ranks: int | None = None,
    title: str | None = None,
    theme: str = "auto",
    until_s: float = 0.0,
) -> str:
    """Draw a timeline as inline SVG; equal timelines give equal text.

    Args:
        timeline: what to draw.
        width: in pixels; the picture shrinks with the page. At least 480.
        max_ranks: draw only the first and last ranks, this many in all; None draws every rank.
        title: a line above; by default none.
        theme: "auto" follows the page, "light" and "dark" don't.
        until_s: where the time axis ends, if that is later than the makespan: with the same end,
            pictures of several runs can be compared.

    Returns:
        An `<svg>` element with hover text on every bar and, where there are at most 16 ranks
        and 500 messages, on every message.
    """
    width = max(480.0, float(width))
    until_s = max(until_s, timeline.makespan_s)
    unit = time_unit(until_s)
    rows = choose_rows(timeline.world_size, max_ranks)
    pitch, bar = row_sizes(len(rows))
    arrows = draws_arrows(timeline, len(rows))

    head: list[str] = []
    y = 10.0
    if title:
        y += 14
        head.append(text(16, y, shorten(title, width - 32, 14), 14, extra='font-weight="600"'))
        y += 4
    for line in fit_lines(_facts(timeline), width - 32, 12):
        y += 16
        head.append(text(16, y, line, 12))
    y += 21
    legend, _ = _legend(16, y, timeline, arrows)
    head.append(legend)

    left = 16 + max(text_width("rank 0", 11), text_width(f"rank {max(rows, default=0)}", 11)) + 8
    edge = width - 16 - SHARE_WIDTH - 18
    # A run that could not end gets room at the right for what its ranks are blocked in.
    part = 1.0 if not blocked_calls(timeline) else 0.55 if timeline.makespan_s > 0 else 0.0
    layout = Layout(
        width=width,
        left=left,
        right=left + part * (edge - left),
        edge=edge,
        top=y + 22,
        pitch=pitch,
        bar=bar,
        rows=rows,
        until_s=until_s,
    )
    share_x = layout.edge + 18 + SHARE_WIDTH / 2
    head.append(
        text(share_x, y + 16, "share of time", 10.5, role="muted", extra='text-anchor="middle"')
    )
    left_out = timeline.world_size - len(rows)
    if left_out:
        words = f"{left_out} more ranks not drawn"
        gap = layout.top + ((max_ranks or 0) + 1) // 2 * pitch + pitch / 2 + 3.5
        head.append(text(layout.left, gap, words, min(11, pitch), role="muted"))
    return "".join(
        (
            open_svg(width, layout.bottom + 44, alt_text(timeline), theme),
            *head,
            *_grid(timeline, layout, unit),
            *messages(timeline, layout, unit),
            *rank_rows(timeline, layout, unit),
            *critical_path(timeline, layout),
            "</svg>",
        )
    )
