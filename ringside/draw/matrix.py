"""Who sent how many bytes to whom: a heat map, in the colour of communication.

        to rank
         0  1  2  3
from  0  .  #  .  .      a ring of four: each rank sends to the next one only
rank  1  .  .  #  .
      2  .  .  .  #
      3  #  .  .  .
"""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Any

from ringside.draw.page import fit_lines, open_svg, shorten, text, text_width
from ringside.draw.palette import LIGHT
from ringside.units import byte_base, bytes_in, format_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ringside.draw.drawable import Drawable

FAINTEST = 0.18  # opacity of the smallest amount that isn't zero: it must differ from none


def _largest(matrix: Any) -> int:
    return int(matrix.max()) if matrix.size else 0


def units_of(timeline: Drawable) -> int:
    """The base of the units in which the messages are round, as in the timeline's picture."""
    return byte_base(message.nbytes for message in timeline.messages)


def matrix_facts(timeline: Drawable) -> list[str]:
    """The picture in words."""
    matrix, base = timeline.bytes_matrix, units_of(timeline)
    world_size = timeline.world_size
    sent = [int(matrix[rank].sum()) for rank in range(world_size)]
    received = [int(matrix[:, rank].sum()) for rank in range(world_size)]
    busiest = max(range(world_size), key=lambda rank: (sent[rank] + received[rank], -rank))
    facts = [f"{bytes_in(base, sum(sent))} in all between {world_size} ranks"]
    if sum(sent):
        even = len(set(sent)) == 1 and len(set(received)) == 1
        facts += [
            f"{'every rank' if even else f'most on rank {busiest}'}: "
            f"{bytes_in(base, sent[busiest])} sent, {bytes_in(base, received[busiest])} received",
            f"at most {bytes_in(base, _largest(matrix))} from one rank to another",
        ]
    return facts


def bytes_matrix_svg(
    timeline: Drawable, *, width: float = 460, title: str | None = None, theme: str = "auto"
) -> str:
    """Draw the bytes matrix as inline SVG: a row for each sender, a column for each receiver."""
    world_size = timeline.world_size
    width = max(320.0, float(width))
    head, y = [], 8.0
    if title:
        y += 15
        head.append(text(16, y, shorten(title, width - 32, 14), 14, extra='font-weight="600"'))
    for line in fit_lines(matrix_facts(timeline), width - 32, 11.5):
        y += 17
        head.append(text(16, y, line, 11.5, role="muted"))
    left = 34 + text_width(str(world_size - 1), 11) + 8
    cell = min(56.0, (width - left - 16) / max(1, world_size))
    top = y + 44
    middle_y = top + cell * world_size / 2
    body = [
        text(left + cell * world_size / 2, top - 22, "to rank", 11, role="muted",
             extra='text-anchor="middle"'),
        text(0, 0, "from rank", 11, role="muted",
             extra=f'text-anchor="middle" transform="translate(26 {middle_y:.1f}) '
             'rotate(-90)"'),
        f'<rect class="rs-grid-line" x="{left:.1f}" y="{top:.1f}" width="{cell * world_size:.1f}" '
        f'height="{cell * world_size:.1f}" fill="none" stroke="{LIGHT.grid}"/>',
    ]  # fmt: skip
    every = next(n for n in (1, 4, 8, 16, 32, 64) if n * cell >= 18 or n == 64)
    for rank in range(0, world_size, every):
        middle = (rank + 0.5) * cell
        body.append(
            text(left + middle, top - 7, str(rank), 11, role="muted", extra='text-anchor="middle"')
        )
        body.append(
            text(
                left - 7, top + middle + 3.7, str(rank), 11, role="muted", extra='text-anchor="end"'
            )
        )
    body += _cells(timeline, left, top, cell)
    height = top + cell * world_size + 18
    alt = "Bytes matrix: " + ", ".join(matrix_facts(timeline)) + "."
    return open_svg(width, height, alt, theme) + "".join(head + body) + "</svg>"


def _cells(timeline: Drawable, left: float, top: float, cell: float) -> list[str]:
    """A square for every pair that talked: the more bytes the darker, and the bytes if they fit."""
    matrix, base = timeline.bytes_matrix, units_of(timeline)
    counts = Counter((message.source, message.dest) for message in timeline.messages)
    squares, labels = [], []
    for source in range(timeline.world_size):
        for dest in range(timeline.world_size):
            nbytes, number = int(matrix[source, dest]), counts[source, dest]
            if nbytes == 0 and number == 0:
                continue
            opacity = FAINTEST + (1 - FAINTEST) * nbytes / _largest(matrix) if nbytes else 0.06
            x, y = left + dest * cell, top + source * cell
            tooltip = f"rank {source} to rank {dest}\n{bytes_in(base, nbytes)}"
            tooltip += f" in {format_count(int(number), 'message')}" if number else ""
            squares.append(
                f'<rect class="rs-bar" x="{x + 0.5:.1f}" y="{y + 0.5:.1f}" width="{cell - 1:.1f}" '
                f'height="{cell - 1:.1f}" fill-opacity="{opacity:.2f}">'
                f"<title>{escape(tooltip, quote=False)}</title></rect>"
            )
            if text_width(bytes_in(base, nbytes), 10) + 4 <= cell:
                role = "on-communication" if opacity > 0.5 else "ink"
                middle = (x + cell / 2, y + cell / 2 + 3.5)
                anchor = 'text-anchor="middle"'
                labels.append(text(*middle, bytes_in(base, nbytes), 10, role=role, extra=anchor))
    return [
        f'<g class="rs-communication" fill="{LIGHT.communication}">',
        *squares,
        '</g><g class="rs-quiet">',
        *labels,
        "</g>",
    ]


def bytes_matrix_axes(timeline: Drawable, ax: Axes | None = None) -> Axes:
    """Draw the bytes matrix with matplotlib; `ax` None makes a figure of its own."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from ringside.draw.figure import axes_or_new, restyle

    ax = axes_or_new(ax, (4.8, 4.2))
    ramp = LinearSegmentedColormap.from_list("bytes", [LIGHT.paper, LIGHT.communication, "#7a4b00"])
    image = ax.imshow(timeline.bytes_matrix, cmap=ramp, vmin=0, interpolation="nearest")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.85)
    base = units_of(timeline)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: bytes_in(base, value)))
    bar.outline.set_visible(False)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    ax.set_xlabel("to rank")
    ax.set_ylabel("from rank")
    restyle(ax)
    return ax
