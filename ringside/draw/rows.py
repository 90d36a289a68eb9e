"""The rows of a timeline's picture: each rank's bars, what it is blocked in, and its shares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ringside.draw import blocks as cutting
from ringside.draw.bar_colors import ROLES, Tone, short_words
from ringside.draw.drawable import blocked_calls, rank_label
from ringside.draw.layout import SHARE_WIDTH, Layout
from ringside.draw.page import fine, num, shorten, text, text_width
from ringside.draw.palette import KINDS, LIGHT
from ringside.draw.row_groups import STACK, role
from ringside.units import format_time

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable
    from ringside.spans import Span

MOST_BLOCKS = 4000  # bars with hover text: some 200 bytes each


def _fitting(span: Span, room: float) -> tuple[str, float]:
    """The longest words for a bar that fit in `room` pixels, and their size; "" if none do."""
    for label in short_words(span):
        if text_width(label, 10.5) <= room - 8:
            return label, 10.5
        # A microbatch's letter and number also stand in bars that are hardly wider than they; the
        # estimate of their width is generous.
        if len(label) <= 3 and text_width(label, 9) <= (1.12 if label.isdigit() else 1.0) * room:
            return label, 9.0
    return "", 0.0


def _bars(
    row: Sequence[cutting.Block], layout: Layout, hover: Sequence[str], words: list[str]
) -> Iterable[str]:
    """The blocks of one rank: a group for each tone keeps the elements short.

    Args:
        words: what is to be written on them is added here.
    """
    if not row:
        return
    y, gap = layout.y(row[0].rank), 0.5 if layout.pitch > 8 else 0.3
    groups: dict[Tone, list[tuple[cutting.Block, str]]] = {}
    for block, tooltip in zip(row, hover, strict=True):
        groups.setdefault(block.tone, []).append((block, tooltip))
    for tone, drawn in sorted(
        groups.items(), key=lambda item: (ROLES.index(item[0].role), item[0].part)
    ):
        # Messages lie beneath the bars; through an idle rank they show.
        seen_through = ' fill-opacity=".72"' if tone.role == "idle" else ""
        yield f'<g class="{tone.css}" fill="{tone.hue()}"{seen_through}>'
        for block, tooltip in drawn:
            x, end = layout.x(block.start_s), layout.x(block.end_s)
            # The gap shows where a call ends; bars that stand for many calls have none.
            apart = gap if len(block.spans) == 1 and end - x > 2 else 0
            wide = max(end - x - apart, 0.3)
            path = f"M{fine(x)} {num(y)}h{fine(wide)}v{num(layout.bar)}h-{fine(wide)}z"
            title = f"<title>{escape(tooltip, quote=False)}</title>"
            yield f'<path class="rs-bar" d="{path}">{title}</path>'
            label, size = _fitting(block.spans[0], wide) if len(block.spans) == 1 else ("", 0.0)
            if label and layout.bar >= 12:
                words.append(
                    text(
                        x + wide / 2,
                        y + layout.bar / 2 + 0.35 * size,
                        label,
                        size,
                        role=f"on-{tone.text}",
                        extra='text-anchor="middle"',
                    )
                )
        yield "</g>"


def rank_rows(
    timeline: Drawable,
    layout: Layout,
    unit: tuple[float, str],
    base: int,
    above: Iterable[str] = (),
) -> Iterable[str]:
    """The rows of ranks.

    Args:
        above: what lies above the bars and beneath the words on them.
    """
    words_on_bars: list[str] = []
    pixel_s = layout.until_s / max(1.0, layout.right - layout.left)
    blocked = blocked_calls(timeline)
    deaths_s: dict[int, float] = getattr(timeline, "deaths_s", {})
    named = {0, *getattr(timeline, "slow", {})}
    ranks = list(layout.rows)
    spans = [timeline.spans[rank] for rank in ranks]
    rows, narrow_s = cutting.cut_all(spans, pixel_s, most=MOST_BLOCKS)
    if any(len(block.spans) > 1 for row in rows for block in row):
        note = f"calls shorter than {format_time(narrow_s)} are joined"
        end = layout.width - 16
        yield text(end, layout.bottom + 35, note, 10.5, role="muted", extra='text-anchor="end"')
    traffic = cutting.Traffic(timeline.messages, base)
    every = next(n for n in (1, 4, 8, 16, 32, 64) if n * layout.pitch >= (15, 32)[n > 1] or n == 64)
    for rank, row in zip(ranks, rows, strict=True):
        y, middle = layout.y(rank), layout.y(rank) + layout.bar / 2
        strip = y - (layout.pitch - layout.bar) / 2
        yield (
            f'<g class="rs-row" data-rank="{rank}">'
            f'<rect class="rs-strip rs-quiet" x="6" y="{num(strip)}" '
            f'width="{num(layout.width - 12)}" height="{num(layout.pitch)}" fill-opacity="0"/>'
        )
        if rank in layout.names:
            yield text(
                layout.left - 8, middle + 3.7, layout.names[rank], 11,
                role="muted", extra='text-anchor="end"',
            )  # fmt: skip
        elif rank % every == 0 or rank in named:
            yield text(
                layout.left - 8,
                middle + 3.7,
                rank_label(timeline, rank) if every == 1 or rank in named else str(rank),
                11 if layout.pitch >= 13 else 10,
                role="muted",
                extra='text-anchor="end"',
            )
        tooltips = [cutting.hover_text(block, traffic, unit) for block in row]
        yield '<g class="rs-time">'
        yield from _bars(row, layout, tooltips, words_on_bars)
        if rank in deaths_s:
            yield from _death(rank, deaths_s[rank], layout)
        if rank in blocked:
            yield from _blocked_bar(rank, *blocked[rank], layout)
        yield "</g>"
        yield from _share_bar(timeline, rank, layout)
        yield "</g>"
    yield from ('<g class="rs-time">', *above, "</g>")
    if words_on_bars:
        yield '<g class="rs-time rs-words rs-quiet">' + "".join(words_on_bars) + "</g>"


def _death(rank: int, time_s: float, layout: Layout) -> Iterable[str]:
    """A cross where a rank was killed, and a broken line from there on."""
    x, middle = layout.x(time_s), layout.y(rank) + layout.bar / 2
    arm = min(layout.bar / 2, 6.0)
    yield (
        f'<path class="rs-ink-line" d="M{num(x - arm)} {num(middle - arm)}l{num(2 * arm)} '
        f"{num(2 * arm)}m0 {num(-2 * arm)}l{num(-2 * arm)} {num(2 * arm)}M{num(x + arm)} "
        f'{num(middle)}" stroke="{LIGHT.ink}" stroke-width="2" fill="none"/>'
        f'<path class="rs-ink-line" d="M{num(x + arm + 2)} {num(middle)}H{num(layout.right)}" '
        f'stroke="{LIGHT.ink}" stroke-dasharray="2 4" fill="none">'
        f"<title>rank {rank} was killed at {format_time(time_s)}</title></path>"
    )


def _blocked_bar(rank: int, since_s: float, call: str, layout: Layout) -> Iterable[str]:
    """An open bar from the rank's last event on: it waits for ever."""
    # Filled, though unseen: an empty bar shows its hover text on the rim alone.
    x, y, hangs = layout.x(since_s), layout.y(rank), call.startswith("hangs")
    yield (
        f'<path class="rs-ink-line" d="M{num(layout.edge)} {num(y)}H{num(x + 1)}v{num(layout.bar)}'
        f'H{num(layout.edge)}" stroke="{LIGHT.ink}" stroke-dasharray="4 3" fill="#000" '
        f'fill-opacity="0"><title>rank {rank} {"" if hangs else "never returns from"}\n'
        f"{escape(call, quote=False)}</title></path>"
    )
    if layout.bar >= 12:
        words = call if hangs else f"blocked in {call}"
        label = shorten(words, layout.edge - x - 14, 10.5)
        yield text(x + 9, y + layout.bar / 2 + 3.7, label, 10.5, extra='pointer-events="none"')


def _share_bar(timeline: Drawable, rank: int, layout: Layout) -> Iterable[str]:
    """At the right: how the rank spent the makespan, in all."""
    part = shares(timeline, rank)
    tooltip = f"rank {rank} in all\n" + "\n".join(
        f"{kind} {100 * part[kind]:.1f} % of the makespan" for kind in KINDS
    )
    x, y = layout.edge + 18, layout.y(rank)
    high = min(layout.bar, 12.0)
    y += (layout.bar - high) / 2
    yield f"<g><title>{tooltip}</title>"
    roles = role_shares(timeline, rank)
    for name in STACK:
        wide = SHARE_WIDTH * roles[name]
        if wide >= 0.05:
            yield (
                f'<path class="rs-{name}" fill="{getattr(LIGHT, name)}" '
                f'd="M{num(x)} {num(y)}h{num(wide)}v{num(high)}h-{num(wide)}z"/>'
            )
        x += wide
    yield "</g>"


def role_shares(timeline: Drawable, rank: int) -> dict[str, float]:
    """As `shares`, with forward and backward by themselves."""
    total = dict.fromkeys(STACK, 0.0)
    for span in timeline.spans[rank]:
        total[role(span)] += span.end_s - span.start_s
    return {name: seconds / (timeline.makespan_s or 1.0) for name, seconds in total.items()}


def shares(timeline: Drawable, rank: int) -> dict[str, float]:
    """Each kind's share of the makespan on one rank, 0 to 1."""
    total = dict.fromkeys(KINDS, 0.0)
    for span in timeline.spans[rank]:
        total[span.kind] += span.end_s - span.start_s
    return {kind: seconds / (timeline.makespan_s or 1.0) for kind, seconds in total.items()}
