"""The house style of plots with matplotlib.

matplotlib is imported inside the functions: drawing SVG doesn't need it, and it is slow to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringside.draw.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
