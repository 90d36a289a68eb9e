"""Which colour a bar has: forward and backward in two hues, microbatches and shards in shades.

    forward       blue     microbatch k: shade k modulo 4, from light to dark
    backward      green    likewise
    compute       blue     what is neither
    communication orange   what carries item k: shade k modulo 4
    idle          grey

A microbatch has the same shade in every figure. In grey every forward shade is darker than every
backward shade on a light page, and lighter on a dark one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringside.draw.palette import LIGHT, Theme

if TYPE_CHECKING:
    from ringside.spans import Span

SHADES = 4
ROLES = ("compute", "forward", "backward", "communication", "item", "idle")

_NUMBER = re.compile(r"\W*(?:(?:of|microbatch|mb)\W+)*(\d+)")


@dataclass(frozen=True, order=True)
class Tone:
    """A hue by what it means, and a shade of it, 0 to 3; None: the hue itself."""

    role: str
    shade: int | None = None

    @property
    def text(self) -> str:
        """The role of words on it, as `Theme.on_compute`."""
        return {"forward": "compute", "item": "communication"}.get(self.role, self.role)

    @property
    def css(self) -> str:
        """Its classes; pages that clean what they show let no style through."""
        return f"rs-{self.role} rs-shade-{self.shade}" if self.shade else f"rs-{self.role}"

    def hue(self, theme: Theme = LIGHT) -> str:
        """The colour as hexadecimal RGB."""
        if self.role not in ("forward", "backward", "item"):
            return str(getattr(theme, self.role))
        near = str(getattr(theme, self.role))
        return mixed(near, str(getattr(theme, f"{self.role}_far")), self.part)

    @property
    def part(self) -> float:
        """How far the shade is from the hue's lightest to its darkest, 0 to 1."""
        return 0.0 if self.shade is None else self.shade / (SHADES - 1)


def mixed(near: str, far: str, part: float) -> str:
    """A colour between two, as `color-mix(in srgb, ...)` gives it."""
    pairs = zip(*([int(hue[k : k + 2], 16) for k in (1, 3, 5)] for hue in (near, far)), strict=True)
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in pairs)


def way_of(words: str) -> tuple[str, int | None]:
    """ "forward", "backward" or "" for neither, and the number of the microbatch.

    >>> way_of("F3"), way_of("backward of microbatch 2"), way_of("forward conv1"), way_of("Fit")
    (('forward', 3), ('backward', 2), ('forward', None), ('', None))
    """
    match = re.match(r"([FBWI])(\d+)", words)
    if match:
        return "forward" if match[1] == "F" else "backward", int(match[2])
    match = re.match(r"(forward|fwd|backward|bwd)(?![a-z])", words, re.IGNORECASE)
    if not match:
        return "", None
    number = _NUMBER.match(words, match.end())
    way = "forward" if match[1][0] in "fF" else "backward"
    return way, int(number[1]) if number else None


def tone_of(span: Span) -> Tone:
    """The colour of a span."""
    if span.kind == "idle":
        return Tone("idle")
    if span.kind == "communication":
        numbers = re.findall(r"\d+", span.item)
        if not span.item:
            return Tone("communication")
        return Tone("item", int(numbers[-1]) % SHADES if numbers else 0)
    (way, number), (also, its_number) = way_of(span.label), way_of(span.phase)
    way, number = way or also, its_number if number is None else number
    if not way:
        return Tone("compute")
    return Tone(way, None if number is None else number % SHADES)


def short_words(span: Span) -> list[str]:
    """What may be written on a bar, from long to short: what fits is taken.

    >>> from ringside.spans import Span
    >>> short_words(Span(0, 0, 1, "compute", "forward 3", ""))
    ['forward 3', 'F3', '3']
    """
    if span.kind == "communication" and span.item:
        digits = re.findall(r"\d+", span.item)
        return [f"{span.label.partition('(')[0]}, {span.item}", span.item, *digits[-1:]]
    labels = [span.label, span.label.partition("(")[0]]
    way, number = way_of(span.label)
    if not way:
        way, number = way_of(span.phase)
        labels = [*([span.phase] if way else []), *labels]
    if way and number is not None:
        letter = span.label[0] if re.match(r"[BWI]\d", span.label) else way[0].upper()
        labels += [f"{letter}{number}", str(number)]
    elif way:
        rest = span.label.partition(" ")[2]
        labels += [*([rest] if rest else []), way[0].upper()]
    return list(dict.fromkeys(labels))


def all_tones(rows: Iterable[Iterable[Span]]) -> list[Tone]:
    """Every tone that some span of some length has, in the order of a legend."""
    tones = {tone_of(span) for row in rows for span in row if span.end_s > span.start_s}
    return sorted(tones, key=lambda tone: (ROLES.index(tone.role), tone.part))
