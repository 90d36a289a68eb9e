"""Which scheme is fastest at which message size: predicted lines against replayed markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ringside.draw.figure import axes_or_new, restyle
from ringside.draw.palette import LIGHT, scheme_styles
from ringside.units import format_bytes, format_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def crossover_axes(
    sizes: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]] | None = None,
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw time against message size for several schemes, both axes logarithmic.

    Args:
        sizes: message sizes in bytes, each above 0, shape ``(k,)``.
        curves: scheme -> replayed seconds, shape ``(k,)``: the markers.
        predicted: scheme -> seconds by formula, shape ``(k,)``: the lines. A scheme without
            a formula has its markers joined by a thin dotted line.
        ax: where; None makes a figure of its own.
        title: a line above.

    Raises:
        ValueError: a curve's length differs from that of `sizes`, or a size isn't above 0.
    """
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    predicted = predicted or {}
    for what, table in (("curves", curves), ("predicted", predicted)):
        for name, seconds in table.items():
            if len(seconds) != len(sizes):
                raise ValueError(
                    f"{what}[{name!r}] has {len(seconds)} values for {len(sizes)} sizes."
                )
    if not all(size > 0 for size in sizes):
        raise ValueError("sizes must be above 0: a logarithmic axis has no place for 0.")

    ax = axes_or_new(ax, (7.6, 4.8))
    names = list(dict.fromkeys([*curves, *predicted]))
    styles = scheme_styles(names)
    # A curve that others cover is drawn first and wider, so that it shows as a rim around them.
    covered = {
        name: sum(_coincide(curves, predicted, name, other) for other in names[number + 1 :])
        for number, name in enumerate(names)
    }
    for name in names:
        hue, marker = styles[name]
        if name in predicted:
            ax.plot(sizes, predicted[name], color=hue, linewidth=1.5 + 3 * covered[name], zorder=2)
        if name in curves:
            ax.plot(
                sizes,
                curves[name],
                color=hue,
                marker=marker,
                markersize=5.5 + 4.5 * covered[name],
                markeredgecolor=LIGHT.paper,
                markeredgewidth=0.6,
                linestyle="none" if name in predicted else ":",
                linewidth=1.0,
                zorder=3,
            )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(FixedLocator(_size_ticks(min(sizes), max(sizes))))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value)))
    ax.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0,)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_time(value)))
    ax.grid(which="major", color=LIGHT.grid, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_xlabel("bytes that every rank contributes")
    ax.set_ylabel("time")
    if title:
        ax.set_title(title, loc="left")
    handles = [
        Line2D(
            [],
            [],
            color=styles[name][0],
            marker=styles[name][1] if name in curves else "",
            linestyle="-" if name in predicted else ":",
            markersize=5.5,
            label=name.replace("_", " "),
        )
        for name in names
    ]
    if predicted and curves:
        handles += [
            Line2D([], [], color=LIGHT.muted, linewidth=1.5, label="line: predicted"),
            Line2D(
                [], [], color=LIGHT.muted, marker="o", linestyle="none", label="marker: replayed"
            ),
        ]
    ax.legend(handles=handles, frameon=False, fontsize=9, labelcolor=LIGHT.ink, loc="upper left")
    restyle(ax)
    return ax


def _coincide(
    curves: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]],
    name: str,
    other: str,
) -> bool:
    """Whether two schemes take the same time, to 3 %, at most of the sizes.

    A thin dotted line covers nothing.
    """
    if name in predicted and other not in predicted:
        return False
    for table in (curves, predicted):
        if name in table and other in table:
            pairs = list(zip(table[name], table[other], strict=True))
            close = sum(abs(a - b) <= 0.03 * max(abs(a), abs(b)) for a, b in pairs)
            return 2 * close > len(pairs)
    return False


def _size_ticks(smallest: float, largest: float) -> list[float]:
    """Powers of two between the sizes, at most about eight of them."""
    low, high = int(smallest).bit_length() - 1, int(largest).bit_length() - 1
    step = max(1, -(-(high - low) // 7))
    return [float(2**power) for power in range(low + (2**low < smallest), high + 1, step)]
