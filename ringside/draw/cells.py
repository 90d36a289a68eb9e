"""Ranks as rows of cells, with the numbers that they hold: collectives, before and after.

    All-to-all                 title, and how MPI and torch call it
            before      after
    rank 0  0 1 2 3     0 10 20 30
    rank 1  10 11 ...   1 11 21 31

A number keeps the tint of the rank that it comes from, and sums have another. No picture needs its
colours: the numbers themselves tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ringside.draw.page import num, open_svg, text, text_width
from ringside.draw.palette import LIGHT, NUM_CELL_COLOURS
from ringside.units import format_time, round_ticks, three_digits, time_unit

WIDTH = 400.0  # of a phone's page
CELL_HEIGHT = 24.0
PITCH = 29.0
_LEFT, _GAP = 58.0, 46.0


@dataclass(frozen=True)
class Cell:
    """A number, and what it is: of one rank (its `origin`), or a sum (None) of `part` of all."""

    words: str
    origin: int | None = None
    part: float = 1.0


def cell(x: float, y: float, width: float, height: float, shown: Cell, size: float) -> str:
    """One cell with its number."""
    if shown.origin is None:
        # color-mix in the style; a reader without it sees the full tone
        role, fill = f'rs-sum" style="--rs-part:{100 * shown.part:.0f}%', LIGHT.sum_far
    else:
        number = shown.origin % NUM_CELL_COLOURS
        role, fill = f"rs-cell-{number}", getattr(LIGHT, f"cell_{number}")
    bold = ' font-weight="700"' if shown.origin is None else ""
    return (
        f'<rect class="{role}" x="{num(x)}" y="{num(y)}" width="{num(width)}" '
        f'height="{num(height)}" rx="3" fill="{fill}"/>'
        + text(
            x + width / 2, y + height / 2 + 0.36 * size, shown.words, size,
            extra=f'text-anchor="middle"{bold}',
        )
    )  # fmt: skip


def rows_of_cells(
    x: float, y: float, rows: Sequence[Sequence[Cell]], width: float, columns: int
) -> Iterable[str]:
    """One row for each rank; a dashed line stands where a rank holds nothing."""
    wide = width / columns
    for rank, row in enumerate(rows):
        top = y + rank * PITCH
        if not row:
            yield (
                f'<rect class="rs-muted-line" x="{num(x + 0.5)}" y="{num(top + 0.5)}" '
                f'width="{num(width - 3)}" height="{num(CELL_HEIGHT - 1)}" rx="3" fill="none" '
                f'stroke="{LIGHT.muted}" stroke-opacity=".55" stroke-dasharray="2 4"/>'
            )
        for column, content in enumerate(row):
            yield cell(x + column * wide, top, wide - 3, CELL_HEIGHT, content, 12.5)


def _head(title: str, calls: str, sentence: str) -> tuple[list[str], float]:
    """The title with the calls at the right, a sentence in as many lines as it takes, and y."""
    parts = [text(14, 25, title, 15, extra='font-weight="600"')]
    parts.append(text(WIDTH - 14, 25, calls, 11, role="muted", extra='text-anchor="end"'))
    y = 30.0
    for line in wrapped(sentence, WIDTH - 28, 12):
        y += 15
        parts.append(text(14, y, line, 12, role="muted"))
    return parts, y


def wrapped(words: str, room: float, size: float) -> list[str]:
    """The words in lines of at most `room` pixels."""
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _rank_names(y: float, count: int) -> list[str]:
    return [
        text(
            _LEFT - 8, y + rank * PITCH + CELL_HEIGHT / 2 + 4, f"rank {rank}", 11.5,
            role="muted", extra='text-anchor="end"',
        )
        for rank in range(count)
    ]  # fmt: skip


def before_after_svg(
    title: str,
    before: Sequence[Sequence[Cell]],
    after: Sequence[Sequence[Cell]],
    *,
    calls: str = "",
    sentence: str = "",
) -> str:
    """Draw what ranks hold before and after a collective.

    Args:
        title: its name.
        before, after: for each rank the cells that it holds.
        calls: how MPI and torch call it, at the right of the title.
        sentence: what it does, below the title.
    """
    parts, y = _head(title, calls, sentence)
    widest = [max((len(row) for row in rows), default=1) or 1 for rows in (before, after)]
    room = (WIDTH - _LEFT - _GAP - 12) / 2
    wide = min(38.0, room / max(widest))
    lefts = (_LEFT, _LEFT + room + _GAP)
    y += 20
    names = zip(("before", "after"), lefts, widest, strict=True)
    parts += [
        text(left + max(count * wide, 44) / 2, y, label, 11, role="muted",
             extra='text-anchor="middle"')
        for label, left, count in names
    ]  # fmt: skip
    y += 8
    parts += _rank_names(y, len(before))
    for rows, left, count in zip((before, after), lefts, widest, strict=True):
        parts += rows_of_cells(left, y, rows, count * wide, count)
    bottom = y + len(before) * PITCH
    middle = (y + bottom - 5) / 2
    x = _LEFT + room + 4
    parts.append(
        f'<path class="rs-muted-line" d="M{num(x)} {num(middle)}h{num(_GAP - 18)}" '
        f'stroke="{LIGHT.muted}" stroke-width="1.6"/><path class="rs-muted" '
        f'd="M{num(x + _GAP - 12)} {num(middle)}l-8 -4v8z" fill="{LIGHT.muted}"/>'
    )

    def said(rows: Sequence[Sequence[Cell]]) -> str:
        return "; ".join(
            f"rank {rank} holds {' '.join(content.words for content in row) or 'nothing'}"
            for rank, row in enumerate(rows)
        )

    alt = f"{title}. {sentence} Before: {said(before)}. After: {said(after)}."
    head = open_svg(WIDTH, bottom + 9, alt, kind="ringside-picture")
    return head + "".join(parts) + "</svg>"


def arrivals_svg(
    title: str,
    arrive_s: Sequence[float],
    leave_s: Sequence[float],
    *,
    calls: str = "",
    sentence: str = "",
) -> str:
    """Draw when each rank comes to a barrier and when it goes on: work, and then waiting."""
    parts, y = _head(title, calls, sentence)
    end_s = max(leave_s)
    unit = time_unit(end_s)
    left, right = _LEFT, WIDTH - 24.0

    def x(time_s: float) -> float:
        return left + (right - left) * time_s / end_s

    y += 14
    parts += _rank_names(y, len(arrive_s))
    for rank, (arrived, left_at) in enumerate(zip(arrive_s, leave_s, strict=True)):
        top = y + rank * PITCH
        for kind, start, stop, label in (
            ("compute", 0.0, arrived, "works"),
            ("idle", arrived, left_at, "waits"),
        ):
            wide = x(stop) - x(start) - 1
            parts.append(
                f'<rect class="rs-{kind}" x="{num(x(start))}" y="{num(top)}" width="{num(wide)}" '
                f'height="{num(CELL_HEIGHT)}" rx="2" fill="{getattr(LIGHT, kind)}"/>'
            )
            if text_width(label, 11) <= wide - 8:
                parts.append(
                    text(x(start) + 6, top + CELL_HEIGHT / 2 + 4, label, 11, role=f"on-{kind}")
                )
    bottom = y + len(arrive_s) * PITCH
    last = max(arrive_s)
    parts.append(
        f'<path class="rs-ink-line" d="M{num(x(last))} {num(y - 5)}V{num(bottom)}" '
        f'stroke="{LIGHT.ink}" stroke-width="1.4" stroke-dasharray="4 3"/>'
    )
    for tick in round_ticks(end_s / unit[0], 6):
        label = three_digits(tick) + (f" {unit[1]}" if tick == 0 else "")
        parts.append(
            text(x(tick * unit[0]), bottom + 12, label, 11, role="muted",
                 extra='text-anchor="middle"')
        )  # fmt: skip
    summary = "; ".join(
        f"rank {rank} arrives at {format_time(a, unit)} and goes on at {format_time(b, unit)}"
        for rank, (a, b) in enumerate(zip(arrive_s, leave_s, strict=True))
    )
    head = open_svg(WIDTH, bottom + 22, f"{title}. {sentence} {summary}.",
                    kind="ringside-picture")  # fmt: skip
    return head + "".join(parts) + "</svg>"
