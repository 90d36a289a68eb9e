"""Pictures of a run: SVG for notebooks and feedback pages, matplotlib for plots.

Functions take numbers and return text or `Axes`; nothing here calls `show()`.
"""

from ringside.draw.crossover import crossover_axes
from ringside.draw.live import live_html, live_svg
from ringside.draw.page import svg_style
from ringside.draw.svg import timeline_svg

__all__ = [
    "crossover_axes",
    "live_html",
    "live_svg",
    "svg_style",
    "timeline_svg",
]
