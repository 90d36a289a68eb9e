"""A timeline that a reader can zoom: the picture and one small script.

    svg           whole by itself: in PDF, and in front ends that drop scripts
    svg + script  zoom, hover text at once, the critical path on a click, all by keyboard, too

The script is the same for each timeline and acts once for all of a page.
"""

from __future__ import annotations

import re
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ringside.draw.svg import timeline_svg

if TYPE_CHECKING:
    from ringside.draw.drawable import Drawable


@cache
def script() -> str:
    """The script, without comments and indentation."""
    code = Path(__file__).with_name("live.js").read_text(encoding="utf-8")
    return re.sub(r"^\s+|\s+// .*$|^// .*\n|^//\n", "", code, flags=re.MULTILINE)


def script_tag() -> str:
    """The script as it stands in HTML, after the timelines that it makes live."""
    return f"<script>{script()}</script>"


def with_script(html: str) -> str:
    """HTML, with the script behind it if a timeline is in it."""
    return html + script_tag() if 'class="rs-axis"' in html else html


def live_html(timeline: Drawable) -> str:
    """A timeline for notebooks."""
    return with_script(timeline_svg(timeline))


def live_svg(timeline: Drawable) -> str:
    """A timeline as a file of its own, which is live where a browser opens it."""
    picture = timeline_svg(timeline).removesuffix("</svg>")
    return f"{picture}<script>{escape(script(), quote=False)}</script></svg>"
