"""One set of colours for every picture of Ringside, so that a colour means one thing everywhere.

The hues are those of Okabe and Ito (2008), which people with any common colour blindness can
tell apart; besides hue, the kinds differ in lightness, so that a grey print stays readable.

    compute        blue          a rank works; of passes, blue is forward and green backward
    communication  orange        bytes of a rank are on the wire
    idle           light grey    a rank waits
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

KINDS = ("compute", "communication", "idle")
NUM_CELL_COLOURS = 4


@dataclass(frozen=True)
class Theme:
    """The colours of one background, as hexadecimal RGB."""

    paper: str
    ink: str  # text, critical path
    muted: str  # labels, arrows
    grid: str
    compute: str
    communication: str
    idle: str
    on_compute: str  # text on a compute bar
    on_communication: str
    on_idle: str
    on_backward: str
    forward: str  # lightest shade ...
    forward_far: str  # ... and darkest
    backward: str
    backward_far: str
    item: str  # of communication that carries something that the program names
    item_far: str
    cell_0: str  # what a rank had at first, by rank modulo 4
    cell_1: str
    cell_2: str
    cell_3: str
    sum_near: str  # a sum of few ranks ...
    sum_far: str  # ... and of all of them


LIGHT = Theme(
    paper="#ffffff",
    ink="#1b1f24",
    muted="#57606a",
    grid="#e6e9ed",
    compute="#0072b2",
    communication="#e69f00",
    idle="#d3d9e0",
    on_compute="#ffffff",
    on_communication="#1b1f24",
    on_idle="#424a53",
    on_backward="#1b1f24",
    forward="#0072b2",
    forward_far="#00294a",
    backward="#78d0b0",
    backward_far="#009e73",
    item="#f5bf52",
    item_far="#c77f00",
    cell_0="#d6e9f6",
    cell_1="#f6d9e6",
    cell_2="#d5efdf",
    cell_3="#e3def3",
    sum_near="#fff3d6",
    sum_far="#e69f00",
)

DARK = Theme(
    paper="#14171b",
    ink="#f0f2f4",
    muted="#a3acb8",
    grid="#272d35",
    compute="#2f8dc9",
    communication="#e69f00",
    idle="#434d5a",
    on_compute="#0b0d10",
    on_communication="#14171b",
    on_idle="#c3cad3",
    on_backward="#f0f2f4",
    forward="#a3d4f5",
    forward_far="#2f8dc9",
    backward="#117a5a",
    backward_far="#0a4533",
    item="#ffdf9e",
    item_far="#cf8500",
    cell_0="#1f4460",
    cell_1="#5a2f45",
    cell_2="#1f4f39",
    cell_3="#413a63",
    sum_near="#3d3117",
    sum_far="#8f6200",
)

# Schemes keep their colour and marker through the whole course. Hues of the three kinds of
# time are left out, so that a curve is never mistaken for one of them.
_SCHEMES = {
    "star": ("#d55e00", "o"),
    "sharded_server": ("#a8438c", "s"),
    "ring": ("#009e73", "D"),
    "recursive_doubling": ("#56b4e9", "^"),
    "halving_doubling": ("#1b1f24", "v"),
    "tree": ("#8a7a00", "P"),
}
_SPARE = (("#7f5539", "X"), ("#5c4d9a", "<"), ("#b56576", ">"), ("#6b7280", "*"))


def scheme_styles(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker for each scheme: fixed for the course's own, in turn for others."""
    styles: dict[str, tuple[str, str]] = {}
    spare = 0
    for name in names:
        if name in _SCHEMES:
            styles[name] = _SCHEMES[name]
        else:
            styles[name] = _SPARE[spare % len(_SPARE)]
            spare += 1
    return styles


# Groups of ranks: Okabe and Ito's hues, vermilion a little lighter, so that words stand on each.
_GROUPS = (
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#0072b2", "#cc79a7", "#e0703a", "#dfe3e8",
)  # fmt: skip


def group_styles(count: int) -> list[tuple[str, str, str]]:
    """For each of `count` groups of ranks a letter, a hue, and the colour of words on it.

    The hues of the first eight can be told apart with any common colour blindness; after them
    hues come again, and letters tell.
    """
    letters = (chr(ord("A") + k % 26) + str(k // 26 or "") for k in range(count))
    hues = (_GROUPS[k % len(_GROUPS)] for k in range(count))
    return [
        (letter, hue, "#ffffff" if hue == "#0072b2" else LIGHT.ink)
        for letter, hue in zip(letters, hues, strict=True)
    ]
