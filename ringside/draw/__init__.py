"""Pictures of a run: SVG for notebooks and feedback pages, matplotlib for reports.

Functions take numbers and return text or `Axes`; nothing here calls `show()`.
"""

from ringside.draw.crossover import crossover_axes
from ringside.draw.figure import timeline_axes, timeline_png
from ringside.draw.matrix import bytes_matrix_axes, bytes_matrix_svg
from ringside.draw.page import svg_style
from ringside.draw.svg import timeline_svg

__all__ = [
    "bytes_matrix_axes",
    "bytes_matrix_svg",
    "crossover_axes",
    "svg_style",
    "timeline_axes",
    "timeline_png",
    "timeline_svg",
]
