"""The timeline with matplotlib, for reports and for runs too large for a page.

matplotlib is imported inside the functions: drawing SVG doesn't need it, and it is slow to import.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ringside.draw.arrows import draws_arrows
from ringside.draw.bar_colors import Tone
from ringside.draw.blocks import cut_all
from ringside.draw.drawable import time_label
from ringside.draw.palette import LIGHT
from ringside.draw.row_groups import STACK, role
from ringside.files import write_atomically
from ringside.units import byte_base, bytes_in, format_time, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ringside.draw.drawable import Drawable

MOST_BARS = 60_000


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """`ax`, or the axes of a new figure of `size` inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def restyle(ax: Axes) -> None:
    """The house style: quiet frame, labels in ink and not black."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(LIGHT.muted)
    ax.tick_params(colors=LIGHT.muted, labelsize=9)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(LIGHT.ink)
        label.set_fontsize(10)
    ax.title.set_color(LIGHT.ink)
    ax.title.set_fontsize(11)


def timeline_axes(timeline: Drawable, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a timeline on `ax`; None makes a figure of its own.

    Args:
        timeline: what to draw.
        ax: where.
        title: by default the makespan, the number of ranks and the bytes.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.ticker import MultipleLocator

    world_size = timeline.world_size
    ax = axes_or_new(ax, (9.0, figure_height(world_size)))
    scale, unit = time_unit(timeline.makespan_s)
    half = 0.29 if world_size <= 16 else 0.4  # of a bar's height, in rows
    drawn = {role(s) for row in timeline.spans for s in row if s.end_s > s.start_s}
    handles: list[Patch | Line2D] = [
        Patch(facecolor=getattr(LIGHT, name), label=name) for name in STACK if name in drawn
    ]
    _add_bars(timeline, ax, scale, half)
    if _add_messages(timeline, ax, scale, half):
        handles.append(Line2D([], [], color=LIGHT.muted, linewidth=0.9, label="message"))
    if _add_critical_path(timeline, ax, scale, half):
        handles.append(Line2D([], [], color=LIGHT.ink, linewidth=1.6, label="critical path"))
    ax.set_xlim(0, timeline.makespan_s / scale or 1.0)
    ax.set_ylim(world_size - 0.4, -0.6)
    every = 1
    while world_size > 16 * every:
        every *= 2
    ax.yaxis.set_major_locator(MultipleLocator(every))
    ax.set_xlabel(time_label(timeline, unit))
    ax.set_ylabel("rank")
    total = sum(message.nbytes for message in timeline.messages)
    facts = (
        f"{format_time(timeline.makespan_s)} on {world_size} ranks, "
        f"{len(timeline.messages)} messages, "
        f"{bytes_in(byte_base(message.nbytes for message in timeline.messages), total)}"
    )
    ax.set_title(title or facts, loc="left", pad=24)
    ax.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        labelcolor=LIGHT.muted,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.4,
    )
    restyle(ax)
    return ax


def _add_bars(timeline: Drawable, ax: Axes, scale: float, half: float) -> None:
    from matplotlib.collections import PolyCollection

    blocks, _ = cut_all(timeline.spans, timeline.makespan_s / 4000, most=MOST_BARS)
    boxes: dict[Tone, list[tuple[float, float, float, float]]] = {}
    for rank, row in enumerate(blocks):
        for block in row:
            box = (block.start_s / scale, block.end_s / scale, rank - half, rank + half)
            boxes.setdefault(block.tone, []).append(box)
    for tone, corners in sorted(boxes.items(), key=lambda item: (item[0].role, item[0].part)):
        bars = PolyCollection(
            [[(x1, y1), (x1, y2), (x2, y2), (x2, y1)] for x1, x2, y1, y2 in corners],
            facecolors=tone.hue(),
            edgecolors=LIGHT.paper if len(corners) <= 2000 else "none",
            linewidths=0.5,
            zorder=2,
            alpha=0.75 if tone.role == "idle" else 1.0,  # messages lie beneath and show through
        )
        ax.add_collection(bars, autolim=False)


def _add_messages(timeline: Drawable, ax: Axes, scale: float, half: float) -> bool:
    """Arrows from bar to bar while they are legible, else faint lines; whether there are any."""
    from matplotlib.collections import LineCollection

    lines = [
        [
            (message.start_s / scale, message.source + (half if down else -half)),
            (message.end_s / scale, message.dest - (half if down else -half)),
        ]
        for message in timeline.messages
        for down in [message.dest > message.source]
        if message.source != message.dest
    ]
    if draws_arrows(timeline, timeline.world_size):
        arrow = {
            "arrowstyle": "-|>",
            "mutation_scale": 7,
            "color": LIGHT.muted,
            "linewidth": 0.8,
            "shrinkA": 0,
            "shrinkB": 0,
        }
        for start, end in lines:
            ax.annotate("", xy=end, xytext=start, zorder=1, arrowprops=arrow)
    elif lines:
        faint = max(0.05, min(0.35, 120 / len(lines)))
        ax.add_collection(
            LineCollection(lines, colors=LIGHT.ink, linewidths=0.5, alpha=faint, zorder=1),
            autolim=False,
        )
    return bool(lines)


def _add_critical_path(timeline: Drawable, ax: Axes, scale: float, half: float) -> bool:
    """A line on a clear halo along the bars that decide the makespan; whether there is one."""
    points = [
        (time_s / scale, span.rank + half)
        for span in timeline.critical_path
        for time_s in (span.start_s, span.end_s)
    ]
    if points:
        x, y = zip(*points, strict=True)
        for order, (hue, thick) in enumerate(((LIGHT.paper, 3.2), (LIGHT.ink, 1.6))):
            ax.plot(x, y, color=hue, linewidth=thick, zorder=3 + order, solid_joinstyle="round")
    return bool(points)


def figure_height(world_size: int) -> float:
    """Inches that keep every rank visible."""
    return min(14.0, 1.6 + world_size * (0.45 if world_size <= 16 else 0.12))


def timeline_png(
    timeline: Drawable,
    path: str | os.PathLike[str],
    *,
    width_in: float = 9.0,
    dpi: int = 160,
    title: str | None = None,
) -> Path:
    """Write a timeline as a picture, by default a PNG; the file appears whole or not at all.

    Args:
        timeline: what to draw.
        path: the file; its suffix (.png, .pdf, .svg) chooses the format.
        width_in: width in inches.
        dpi: dots per inch.
        title: see `timeline_axes`.

    Returns:
        The path.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = Path(path)
    figure = Figure(figsize=(width_in, figure_height(timeline.world_size)), layout="constrained")
    FigureCanvasAgg(figure)
    timeline_axes(timeline, figure.add_subplot(), title=title)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=dpi, format=path.suffix.lstrip(".") or "png")
    write_atomically(path, picture.getvalue())
    return path
