"""What every SVG picture needs: the root element with its style, text, and text that fits.

The style follows the page. Presentation attributes repeat the light colours, so that a picture
stays readable where a page strips `<style>`. Nothing has an id, so that any number of pictures can
stand on one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ringside.draw.palette import DARK, KINDS, LIGHT, NUM_CELL_COLOURS

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def text_width(text: str, size: float) -> float:
    """An upper estimate of the width of `text` in pixels; fonts differ, so it is generous."""
    return sum(0.36 if c in " .,:;|!'il·()" else 0.62 for c in text) * size


def num(value: float) -> str:
    """A coordinate, to a tenth of a pixel and without needless characters."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def fine(value: float) -> str:
    """A coordinate on a time axis, to a hundredth of a pixel: a reader may zoom in."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def svg_style() -> str:
    """The `<style>` of the pictures, which every picture carries: they follow the page's theme.

    A page that strips styles from what it embeds puts this into its own head.
    """
    light = "".join(f"--{_property(name)}:{value};" for name, value in vars(LIGHT).items())
    both = "".join(
        f"--{_property(name)}:light-dark({value},{getattr(DARK, name)});"
        for name, value in vars(LIGHT).items()
    )
    dark = "".join(f"--{_property(name)}:{value};" for name, value in vars(DARK).items())
    dark_pages = ",".join(
        f"{page} .ringside-auto"
        for page in ("[data-jp-theme-light=false]", "[data-theme=dark]", ".vscode-dark")
    )
    colours = (
        f".ringside-auto{{{light}}}"
        f"@supports (color:light-dark(red,red)){{.ringside-auto{{{both}}}}}"
        f"{dark_pages}{{{dark}}}"
    )
    fills = "".join(
        f".rs-{name}{{fill:var(--{name})}}"
        for name in ("paper", "ink", "muted", *KINDS, *(f"on-{kind}" for kind in KINDS))
    )
    fills += ".rs-on-backward{fill:var(--on-backward)}"
    # The shades of `ringside.draw.bar_colors`
    mixes = "".join(f".rs-shade-{k}{{--rs-part:{100 * k / 3:.0f}%}}" for k in (1, 2, 3))
    for role in ("forward", "backward", "item"):
        fills += f".rs-{role}{{fill:var(--{role})}}"
        shade = f"var(--{role}-far) var(--rs-part,0%),var(--{role})"
        mixes += f".rs-{role}{{fill:color-mix(in srgb,{shade})}}"
    fills += "".join(f".rs-cell-{k}{{fill:var(--cell-{k})}}" for k in range(NUM_CELL_COLOURS))
    fills += (
        ".rs-sum{fill:var(--sum-far)}@supports (color:color-mix(in srgb,red,red)){"
        ".rs-sum{fill:color-mix(in srgb,var(--sum-far) var(--rs-part,100%),var(--sum-near))}"
        f"{mixes}}}"
    )
    strokes = "".join(
        f".rs-{name}-line{{stroke:var(--{name})}}" for name in ("paper", "ink", "muted", "grid")
    )
    return (
        f"<style>{colours}{fills}{strokes}"
        ".rs-bar:hover{stroke:var(--ink);stroke-width:1.5}"
        ".rs-row:hover .rs-strip{fill:var(--ink);fill-opacity:.08}"
        ".rs-row:hover text{font-weight:600}"
        ".rs-message:hover .rs-muted-line{stroke:var(--ink);stroke-width:2.5;opacity:1}"
        ".rs-message:hover .rs-muted{fill:var(--ink);opacity:1}"
        ".rs-quiet{pointer-events:none}</style>"
    )


def _property(name: str) -> str:
    """A colour's name in CSS."""
    return name.replace("_", "-")


def open_svg(width: float, height: float, alt: str, *, kind: str = "ringside") -> str:
    """The root element with its alternative text and style, and the background.

    Args:
        kind: its class for pages: a "ringside" may be scrolled where the page is narrow, and a
            "ringside-picture" is made to fit.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind} ringside-auto" '
        f'role="img" aria-label="{escape(alt)}" viewBox="0 0 {num(width)} {num(height)}" '
        f'width="{num(width)}" height="{num(height)}" font-family="{FONT}" '
        f'style="max-width:100%;height:auto">{svg_style()}'
        f'<rect class="rs-paper" width="{num(width)}" height="{num(height)}" rx="6" '
        f'fill="{LIGHT.paper}"/>'
    )


def text(x: float, y: float, words: str, size: float, *, role: str = "ink", extra: str = "") -> str:
    """One line of text; `role` names its colour."""
    fill = getattr(LIGHT, role.replace("-", "_"))
    extra = f" {extra}" if extra else ""
    return (
        f'<text class="rs-{role}" x="{num(x)}" y="{num(y)}" font-size="{num(size)}" '
        f'fill="{fill}"{extra}>{escape(words, quote=False)}</text>'
    )


def fit_lines(parts: Sequence[str], room: float, size: float) -> list[str]:
    """Join `parts` with dots into as few lines as fit in `room` pixels."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines else part
        if lines and text_width(longer, size) <= room:
            lines[-1] = longer
        else:
            lines.append(part)
    return [shorten(line, room, size) for line in lines]


def shorten(words: str, room: float, size: float) -> str:
    """Cut `words` to `room` pixels, with an ellipsis where something is missing."""
    if text_width(words, size) <= room:
        return words
    while words and text_width(words + "…", size) > room:
        words = words[:-1]
    return words.rstrip() + "…"
