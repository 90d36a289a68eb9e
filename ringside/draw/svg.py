"""The timeline of a run as one self-contained SVG, for notebooks and feedback pages.

    facts: makespan, ranks, machine, bytes
    legend
    rank 0  |compute|communication|....idle....|   share of each kind
    rank 1  |       ...  \\  messages  \\          |
            0      20      40      60      80 µs

It carries its own background, style and hover text, and needs no script, font or file beside it.
`ringside.draw.live` puts a script behind it, for which what lies on the time axis is in `rs-time`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringside.draw.arrows import critical_path, draws_arrows, far_messages, messages
from ringside.draw.bar_colors import Tone, all_tones
from ringside.draw.brackets import LANE_HEIGHT, draw_brackets, lanes
from ringside.draw.drawable import blocked_calls, rank_label, time_label
from ringside.draw.layout import SHARE_WIDTH, Layout, row_sizes
from ringside.draw.page import fine, fit_lines, num, open_svg, text, text_width
from ringside.draw.palette import KINDS, LIGHT
from ringside.draw.row_groups import (
    FEWEST,
    MOST_KINDS,
    bins_of_ranks,
    kinds_of_ranks,
    ranges,
    shares_rows,
)
from ringside.draw.rows import rank_rows, shares
from ringside.units import (
    byte_base,
    bytes_in,
    format_count,
    format_time,
    round_ticks,
    three_digits,
    time_unit,
)

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable

WIDTH = 900.0  # pixels; the picture shrinks with the page


def _facts(timeline: Drawable, base: int) -> list[str]:
    total = sum(message.nbytes for message in timeline.messages)
    facts = [
        f"makespan {format_time(timeline.makespan_s)}",
        format_count(timeline.world_size, "rank"),
        f"{timeline.machine_name} machine",
    ]
    # Of the collectives of a real run, which has a label of its own, nobody sees the messages.
    if timeline.messages or not hasattr(timeline, "time_label"):
        facts += [format_count(len(timeline.messages), "message"), bytes_in(base, total)]
    if blocked_calls(timeline):
        facts[0] = f"stands still at {format_time(timeline.makespan_s)}"
    if timeline.exposed_comm_s > 0:
        facts.append(f"exposed communication {format_time(timeline.exposed_comm_s)}")
    return facts


def alt_text(timeline: Drawable, base: int = 1000) -> str:
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
    return (
        f"Timeline: {', '.join(_facts(timeline, base))}. Mean over the ranks: {mean}.{ends}"
        + "".join(blocked[:8])
    )


def _grid(timeline: Drawable, layout: Layout, unit: tuple[float, str]) -> Iterable[str]:
    ticks = round_ticks(layout.until_s / unit[0], int((layout.right - layout.left) / 90))
    bottom = layout.bottom + 4
    ends = (layout.left, layout.right, layout.edge, layout.top, bottom)
    axis = " ".join((*map(fine, ends), f"{layout.until_s / unit[0]:.7g}"))
    yield f'<g class="rs-axis" data-axis="{axis}">'
    lines = "".join(
        f"M{num(layout.x(tick * unit[0]))} {num(layout.top)}V{num(bottom)}" for tick in ticks
    )
    yield f'<path class="rs-grid-line rs-quiet" d="{lines}" stroke="{LIGHT.grid}"/>'
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
    yield "</g>"


def _makespan_line(timeline: Drawable, layout: Layout) -> str:
    """A dashed line where the run ends."""
    end, top = fine(layout.x(timeline.makespan_s)), num(layout.top)
    return (
        f'<path class="rs-muted-line rs-quiet" d="M{end} {top}V{num(layout.bottom + 4)}" '
        f'stroke="{LIGHT.muted}" stroke-dasharray="3 3"/>'
    )


def _legend(
    y: float, width: float, timeline: Drawable, ranks: list[int], one_each: bool, arrows: bool
) -> tuple[str, float]:
    """Swatches of what is drawn and of nothing else, and the y of their last line."""
    drawn_tones = all_tones(timeline.spans[rank] for rank in ranks)
    by_role: dict[str, list[Tone]] = {}
    for tone in drawn_tones:
        by_role.setdefault(tone.role, []).append(tone)
    parts: list[str] = []
    x = 16.0

    def place(swatch_width: float, words: str) -> float:
        """Where the next entry goes: on a new line if this one is full."""
        nonlocal x, y
        wide = swatch_width + 5 + text_width(words, 11) + 12
        if x > 16 and x + wide > width - 12:
            x, y = 16.0, y + 17
        at, x = x, x + wide
        parts.append(text(at + swatch_width + 5, y, words, 11, role="muted"))
        return at

    for role_name, tones in by_role.items():
        words = role_name
        if role_name == "item":
            words = f"communication, by {_noun(timeline, ranks)}"
        elif any(tone.shade is not None for tone in tones):
            words = f"{role_name}, by microbatch"
        tone_width = 14.0 if len(tones) == 1 else 9.0
        at = place(tone_width * len(tones), words)
        parts += [
            f'<rect class="{tone.css}" x="{num(at + k * tone_width)}" y="{num(y - 9)}" '
            f'width="{num(tone_width)}" height="10" fill="{tone.hue()}"/>'
            for k, tone in enumerate(tones)
        ]
    lines = []
    if one_each and any(message.source != message.dest for message in timeline.messages):
        lines.append(("message", "muted-line", LIGHT.muted, 1.2))
    if one_each and timeline.critical_path:
        lines.append(("critical path", "ink-line", LIGHT.ink, 2.4))
    for name, line, stroke, stroke_width in lines:
        at = place(16.0, name)
        parts.append(
            f'<path class="rs-{line}" d="M{num(at)} {num(y - 4)}h16" stroke="{stroke}" '
            f'stroke-width="{num(stroke_width)}"/>'
        )
        if name == "message" and arrows:
            parts.append(
                f'<path class="rs-muted" d="M{num(at + 17)} {num(y - 4)}l-6 -2.6v5.2z" '
                f'fill="{LIGHT.muted}"/>'
            )
    return "".join(parts), y


def _noun(timeline: Drawable, ranks: list[int]) -> str:
    """What the items are, without their numbers: "shard"."""
    items = {span.item for rank in ranks for span in timeline.spans[rank] if span.item}
    nouns = {item.rstrip("0123456789 ") for item in items}
    return nouns.pop() if len(nouns) == 1 and "" not in nouns else "what it carries"


def _rows(
    timeline: Drawable,
) -> tuple[dict[int, int], dict[int, str], list[range]]:
    """Row of each rank that is drawn, names of rows that stand for several, bins of many ranks."""
    world_size = timeline.world_size
    if world_size >= FEWEST and not blocked_calls(timeline):
        kinds = kinds_of_ranks(timeline)
        if len(kinds) <= min(MOST_KINDS, world_size // 2):
            names = {
                first: ranges(ranks) + (f" ({len(ranks)})" if len(ranks) > 2 else "")
                for first, ranks in kinds.items()
            }
            return {first: row for row, first in enumerate(kinds)}, names, []
        if world_size > 64:
            bins = bins_of_ranks(world_size)
            return (
                {ranks[0]: row for row, ranks in enumerate(bins)},
                {ranks[0]: ranges(ranks) for ranks in bins},
                bins,
            )
    return {rank: rank for rank in range(world_size)}, {}, []


def _all_rows(
    timeline: Drawable, layout: Layout, unit: tuple[float, str], base: int, bins: list[range],
    one_each: bool,
) -> Iterable[str]:  # fmt: skip
    if not bins:
        far = far_messages(timeline, layout, unit, base) if one_each else ()
        yield from rank_rows(timeline, layout, unit, base, far)
        return
    for ranks in bins:
        yield text(
            layout.left - 8, layout.y(ranks[0]) + layout.bar / 2 + 3.7, layout.names[ranks[0]], 11,
            role="muted", extra='text-anchor="end"',
        )  # fmt: skip
    yield from shares_rows(timeline, bins, layout)


def timeline_svg(timeline: Drawable, *, until_s: float = 0.0) -> str:
    """Draw a timeline as inline SVG; equal timelines give equal text.

    Of more than 16 ranks, those that behave alike are one row; of more than 64 that differ, rows
    show at each time how many of them compute, communicate and are idle.

    Args:
        timeline: what to draw.
        until_s: where the time axis ends, if that is later than the makespan: with the same end,
            pictures of several runs can be compared.

    Returns:
        An `<svg>` element with hover text on every bar and, where there are at most 16 ranks
        and 500 messages, on every message.
    """
    until_s = max(until_s, timeline.makespan_s)
    unit = time_unit(until_s)
    base = byte_base(message.nbytes for message in timeline.messages)
    rows, names, bins = _rows(timeline)
    pitch, bar = (19.0, 17.0) if bins else row_sizes(len(rows))
    one_each = not names
    arrows = one_each and draws_arrows(timeline, len(rows))
    over = lanes(timeline)

    head: list[str] = []
    y = 10.0
    for line in fit_lines(_facts(timeline, base), WIDTH - 32, 12):
        y += 16
        head.append(text(16, y, line, 12))
    y += 21
    legend, y = _legend(y, WIDTH, timeline, list(rows), one_each, arrows)
    head.append(legend)
    if names:
        label = (
            "a colour's height is the share of these ranks at that time"
            if bins
            else "ranks that behave alike are one row"
        )
        y += 17
        head.append(text(16, y, label, 11, role="muted"))

    slow = [rank_label(timeline, rank) for rank in getattr(timeline, "slow", {})]
    ends = ("rank 0", f"rank {max(rows, default=0)}", *names.values(), *slow)
    left = 16 + max(text_width(label, 11) for label in ends) + 8
    edge = WIDTH - 16 - SHARE_WIDTH - 18
    # A run that could not end gets room at the right for what its ranks are blocked in.
    part = 1.0 if not blocked_calls(timeline) else 0.55 if timeline.makespan_s > 0 else 0.0
    layout = Layout(
        width=WIDTH,
        left=left,
        right=left + part * (edge - left),
        edge=edge,
        top=y + 22 + len(over) * LANE_HEIGHT,
        pitch=pitch,
        bar=bar,
        rows=rows,
        until_s=until_s,
        names=names,
    )
    share_x = layout.edge + 18 + SHARE_WIDTH / 2
    if not bins:
        head.append(
            text(share_x, layout.top - 6, "share of time", 10.5, role="muted",
                 extra='text-anchor="middle"')
        )  # fmt: skip
    return "".join(
        (
            open_svg(WIDTH, layout.bottom + 44, alt_text(timeline, base)),
            *head,
            *_grid(timeline, layout, unit),
            '<g class="rs-time">',
            _makespan_line(timeline, layout),
            *draw_brackets(over, layout),
            *(messages(timeline, layout, unit, base) if one_each else ()),
            "</g>",
            *_all_rows(timeline, layout, unit, base, bins, one_each),
            *(critical_path(timeline, layout, unit) if one_each else ()),
            "</svg>",
        )
    )
