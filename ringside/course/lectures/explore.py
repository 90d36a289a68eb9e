"""Sliders for a picture: live ones where a kernel runs, and over pictures drawn before elsewhere.

picture(ranks=4, latency_us=10)  ->  a timeline, a Matplotlib figure, or SVG

                    latency  --o----  10 µs
                    ranks    ----o--  8
Jupyter             ipywidgets; `picture` is called for what the sliders say
site, slides        every combination was drawn when the lecture was executed; the sliders
                    choose one of them, with no kernel and no library
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from ringside.course.lectures.exhibits import image, png
from ringside.draw.live import with_script

MOST_PICTURES = 48  # that a page carries


@dataclass(frozen=True)
class Knob:
    """One slider: the values it stops at.

    Attributes:
        values: at least two, numbers or words.
        start: where the slider stands first; the first value if None.
        label: the words beside it; the argument's name if empty.
        unit: after the value, as in "10 µs".
        live: only where a kernel runs; elsewhere it rests at ``start``.
    """

    values: Sequence[Any]
    start: Any = None
    label: str = ""
    unit: str = ""
    live: bool = False

    @property
    def first(self) -> Any:
        return self.values[0] if self.start is None else self.start

    def words(self, value: Any) -> str:
        """A value as the reader sees it."""
        plain = f"{value:,}" if isinstance(value, int) else str(value)
        plain = f"{value:g}" if isinstance(value, float) else plain
        return f"{plain} {self.unit}".strip()


def explore(
    picture: Callable[..., Any], alt: str, *, same_scale: Collection[str] = (), **knobs: Knob
) -> None:
    """Show a picture with a slider for each of its arguments.

    Args:
        picture: called with a value of each knob by name; returns a timeline, a Matplotlib figure,
            or a text of SVG or HTML.
        alt: describes each picture to those who can't see it; ``{name}`` stands for a knob's value.
        same_scale: names of knobs. Timelines that differ in these alone have one time axis, which
            ends with the longest of them; else each fills the width.
        knobs: one for each argument of ``picture``.

    Raises:
        ValueError: a knob has fewer than two values or doesn't have its start, or the pictures to
            be drawn beforehand are more than ``MOST_PICTURES``.
    """
    from IPython.display import publish_display_data

    check(knobs)
    stops = [[knob.first] if knob.live else list(knob.values) for knob in knobs.values()]
    settings = [dict(zip(knobs, values, strict=True)) for values in itertools.product(*stops)]
    drawn = [settled(picture(**setting), alt.format(**setting)) for setting in settings]
    ends: dict[tuple[Any, ...], float] = {}

    def alike(setting: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(value for name, value in setting.items() if name not in same_scale)

    for one, setting in zip(drawn, settings, strict=True):
        ends[alike(setting)] = max(ends.get(alike(setting), 0.0), length(one))

    def show(one: Any, setting: Mapping[str, Any]) -> str:
        until_s = ends.get(alike(setting), 0.0) if same_scale else 0.0
        return markup(one, alt.format(**setting), until_s)

    frames = [show(one, setting) for one, setting in zip(drawn, settings, strict=True)]
    start = {name: knob.first for name, knob in knobs.items()}
    bundle = sliders(lambda **setting: show(picture(**setting), setting), knobs)
    bundle["text/html"] = page(knobs, frames, settings.index(start))
    bundle["text/plain"] = alt.format(**start)
    publish_display_data(bundle)  # type: ignore[no-untyped-call]


def check(knobs: Mapping[str, Knob]) -> None:
    """Refuse knobs that can't be turned, and more pictures than a page should carry."""
    for name, knob in knobs.items():
        if len(knob.values) < 2:
            raise ValueError(f"{name} has {len(knob.values)} values: a slider needs at least 2.")
        if knob.first not in knob.values:
            raise ValueError(f"{name} starts at {knob.first!r}, which is not among its values.")
    count = math.prod(len(knob.values) for knob in knobs.values() if not knob.live)
    if count > MOST_PICTURES:
        raise ValueError(
            f"{count} pictures would be drawn, at most {MOST_PICTURES} are allowed: give the knobs "
            "fewer values, or mark one live=True."
        )


def settled(picture: Any, alt: str) -> Any:
    """Return a timeline as it is, anything else as HTML: of figures too many must not be open."""
    return picture if hasattr(picture, "makespan_s") else markup(picture, alt, 0.0)


def length(picture: Any) -> float:
    """Where a timeline ends, in seconds; 0 of anything else."""
    return float(getattr(picture, "makespan_s", 0.0))


def markup(picture: Any, alt: str, until_s: float) -> str:
    """Return a picture as HTML."""
    if isinstance(picture, str):
        return picture
    if hasattr(picture, "makespan_s"):
        from ringside.draw import timeline_svg

        return timeline_svg(picture, until_s=until_s)
    encoded, width = png(picture.figure)  # an Axes has one too, and a figure is its own
    return image(encoded, alt, width, ' style="max-width:100%;height:auto"')


def sliders(draw: Callable[..., str], knobs: Mapping[str, Knob]) -> dict[str, Any]:
    """Return live sliders as Jupyter shows them; what is drawn is HTML."""
    import ipywidgets
    from IPython.display import HTML, display

    stops = {
        name: ipywidgets.SelectionSlider(
            options=[(knob.words(value), value) for value in knob.values],
            value=knob.first,
            description=knob.label or name,
            style={"description_width": "initial"},
            continuous_update=False,
        )
        for name, knob in knobs.items()
    }
    live = ipywidgets.interactive(
        lambda **setting: display(HTML(with_script(draw(**setting)))),  # type: ignore[no-untyped-call]
        **stops,
    )
    bundle: dict[str, Any] = live._repr_mimebundle_()
    return bundle


# The pictures are in the order of itertools.product: the last slider turns fastest.
CHOOSE = (
    "const all=[...this.querySelectorAll('input')];let at=0;"
    "for(const one of all){at=at*(+one.max+1)+ +one.value;"
    "one.nextElementSibling.textContent=one.dataset.stops.split('|')[one.value]}"
    "[...this.lastElementChild.children].forEach((one,k)=>{one.hidden=k!==at})"
)

# What is shown when a bar is pointed at would be a third of a page with many timelines.
HOVER = re.compile("<title>.*?</title>", re.DOTALL)


def page(knobs: Mapping[str, Knob], frames: Sequence[str], at: int) -> str:
    """Return sliders over pictures, of which one is to be seen."""
    rows = []
    for name, knob in knobs.items():
        label = escape(knob.label or name)
        if knob.live:
            rows.append(f"<span>{label} {escape(knob.words(knob.first))}</span>")
            continue
        stops = "|".join(knob.words(value) for value in knob.values)
        index = list(knob.values).index(knob.first)
        rows.append(
            f'<label>{label} <input type="range" min="0" max="{len(knob.values) - 1}" '
            f'value="{index}" autocomplete="off" data-stops="{escape(stops)}"> '
            f"<output>{escape(knob.words(knob.first))}</output></label>"
        )
    pictures = "".join(
        f"<div{'' if number == at else ' hidden'}>{HOVER.sub('', frame)}</div>"
        for number, frame in enumerate(frames)
    )
    return with_script(
        f'<div class="ringside-explore" oninput="{escape(CHOOSE)}">'
        f'<div style="display:flex;flex-wrap:wrap;gap:.3em 2em">{"".join(rows)}</div>'
        f"<div>{pictures}</div></div>"
    )
