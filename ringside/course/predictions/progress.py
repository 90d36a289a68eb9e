"""How a reader's predictions come nearer to the results, through the course, as one picture.

100 times too high |  o
 10                |     o
right              |--------o----o--o---   one dot a number, in the order of the predictions
 10                |  o        o
100 times too low  |
choices            |  o x       x  x       filled: right
                   | unit 01 | unit 02 |
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from ringside.course.predictions.kept import NAME, Kept, place, read
from ringside.draw.page import fit_lines, num, open_svg, text
from ringside.draw.palette import LIGHT
from ringside.units import format_count, three_digits

WINDOW = 8  # predictions that the band looks back on
_FARTHEST = 100.0  # drawn; what is farther off lies on the edge
_LEFT, _RIGHT, _TOP, _HEIGHT, _STRIP = 150.0, 24.0, 96.0, 200.0, 40.0
_STEP, _NARROWEST = 14.0, 420.0
_WHERE = (NAME, f"lectures/{NAME}", f"lectures/*/{NAME}", f"assignments/*/{NAME}")


@dataclass(frozen=True)
class Progress:
    """The predictions whose results were shown, in the order in which they were made."""

    made: tuple[Kept, ...]
    open: int = 0  # predictions whose results were not shown yet

    @property
    def off_by(self) -> list[float]:
        """How many times too high or too low each number was, at least 1."""
        return [
            one.verdict.off_by
            for one in self.made
            if one.verdict is not None and not one.prompt.choices and one.verdict.off_by is not None
        ]

    @property
    def choices(self) -> tuple[int, int]:
        """How many choices were right, of how many."""
        chosen = [one for one in self.made if one.prompt.choices]
        return sum(one.guess == one.result for one in chosen), len(chosen)

    def summary(self) -> str:
        """The picture in a sentence or two."""
        if not self.made:
            waiting = f" {format_count(self.open, 'prediction')} wait for results." * (
                self.open > 0
            )
            return f"No prediction has met its result yet.{waiting}"
        off, (right, chosen) = self.off_by, self.choices
        parts = [format_count(len(self.made), "prediction") + "."]
        if len(off) >= 2 * WINDOW:
            first, last = median(off[:WINDOW]), median(off[-WINDOW:])
            parts.append(
                f"Half of the first {WINDOW} numbers were within a factor of "
                f"{three_digits(first)}, of the last {WINDOW} within {three_digits(last)}."
            )
        elif off:
            parts.append(
                f"Half of the {format_count(len(off), 'number')} were within a factor of "
                f"{three_digits(median(off))}."
                if len(off) > 1
                else f"The one number was within a factor of {three_digits(off[0])}."
            )
        if chosen:
            parts.append(f"{right} of {format_count(chosen, 'choice')} right.")
        return " ".join(parts)

    def __repr__(self) -> str:
        lines = [self.summary()]
        width = max((len(one.prompt.key) for one in self.made), default=0)
        for one in self.made:
            verdict, words = one.verdict, one.prompt.words
            assert verdict is not None
            lines.append(
                f"  {one.prompt.key:<{width}}  {words(verdict.guess)}; "
                f"result {words(verdict.result)}; {verdict.words}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """The picture; it needs no font, script or file beside it."""
        return "".join(_picture(self))

    def as_json(self) -> list[dict[str, Any]]:
        """For programs."""
        return [
            {"key": one.prompt.key, **one.as_json(), "off_by": one.verdict and one.verdict.off_by}
            for one in self.made
        ]


def progress(files: Iterable[Path]) -> Progress:
    """What is kept in some files; of a key that is in two, what was predicted first.

    Raises:
        GuessError: a file is damaged.
    """
    first: dict[str, Kept] = {}
    for path in files:
        for key, one in read(path).items():
            if key not in first or one.guessed < first[key].guessed:
                first[key] = one
    in_order = sorted(first.values(), key=lambda one: one.guessed)
    predictions = tuple(one for one in in_order if one.locked)
    return Progress(predictions, len(in_order) - len(predictions))


def files_around(folder: Path) -> list[Path]:
    """The files of predictions of the course's tree that a folder lies in, else of the folder."""
    folder = folder.resolve()
    here = [folder, *folder.parents]
    root = next((one for one in here if (one / "lectures").is_dir()), folder)
    paths = [path for pattern in _WHERE for path in sorted(root.glob(pattern))]
    return list(dict.fromkeys([*paths, *filter(Path.is_file, [folder / NAME])]))


def guesses(folder: str | Path | None = None) -> Progress:
    """Show how your predictions come nearer to the results through the course.

    Args:
        folder: in the course's tree; where the notebook stands if None.

    Returns:
        What Jupyter draws: your predictions over their results, in the order in which you made
        them. ``print`` lists them.

    Raises:
        GuessError: a file of predictions is damaged.
    """
    return progress(files_around(place().parent if folder is None else Path(folder)))


# The picture


def _y(ratio: float) -> float:
    """Where a ratio lies, on a logarithmic axis."""
    bounded = min(max(ratio, 1 / _FARTHEST), _FARTHEST)
    return _TOP + _HEIGHT / 2 * (1 - math.log(bounded) / math.log(_FARTHEST))


def _picture(whole: Progress) -> Iterator[str]:
    room = max(_NARROWEST, _STEP * len(whole.made))
    width, bottom = _LEFT + room + _RIGHT, _TOP + _HEIGHT
    has_choices = whole.choices[1] > 0
    end = bottom + (_STRIP if has_choices else 0)
    step = room / max(1, len(whole.made))
    centres = [_LEFT + step * (index + 0.5) for index in range(len(whole.made))]
    alt = f"Predictions over results, in the order in which they were made. {whole.summary()}"
    yield open_svg(width, end + 48, alt)
    yield text(16, 24, "Predictions and results", 15, extra='font-weight="600"')
    for row, line in enumerate(fit_lines(whole.summary().split(". "), width - 32, 11)[:3]):
        yield text(16, 44 + 15 * row, line.replace(" · ", ". ").rstrip(".") + ".", 11, role="muted")
    yield from _axis(width)
    band = list(_band(whole.made, centres))
    yield from band
    for one, x in zip(whole.made, centres, strict=True):
        yield _dot(one, x, bottom + _STRIP / 2)
    if has_choices:
        yield text(
            _LEFT - 10, bottom + _STRIP / 2 + 4, "choices (filled: right)", 11, role="muted",
            extra='text-anchor="end"',
        )  # fmt: skip
    yield from _units(whole.made, step, end)
    note = f" Half of the last {WINDOW} numbers lie in the grey band." if band else ""
    yield text(_LEFT, end + 38, f"In the order in which they were made.{note}", 11, role="muted")
    yield "</svg>"


def _axis(width: float) -> Iterator[str]:
    labels = [(100, "100 times too high"), (10, "10 times"), (1, "right"), (0.1, "10 times"),
              (0.01, "100 times too low")]  # fmt: skip
    for ratio, label in labels:
        role, thick = ("muted", 1.5) if ratio == 1 else ("grid", 1)
        line = f"M{num(_LEFT)} {num(_y(ratio))}H{num(width - _RIGHT)}"
        yield (
            f'<path class="rs-{role}-line" d="{line}" '
            f'stroke="{getattr(LIGHT, role)}" stroke-width="{num(thick)}"/>'
        )
        yield text(
            _LEFT - 10, _y(ratio) + 4, label, 11, role="muted", extra='text-anchor="end"'
        )  # fmt: skip


def _band(made: Sequence[Kept], centres: Sequence[float]) -> Iterator[str]:
    """The band that holds half of the last numbers, as it narrows."""
    seen: list[float] = []
    edge: list[tuple[float, float]] = []
    for one, x in zip(made, centres, strict=True):
        off = one.verdict.off_by if one.verdict else None
        if off is not None and not one.prompt.choices:
            seen.append(off)
            if len(seen) >= 3:
                edge.append((x, median(seen[-WINDOW:])))
    if len(edge) < 2:
        return
    upper = [f"{num(x)} {num(_y(off))}" for x, off in edge]
    lower = [f"{num(x)} {num(_y(1 / off))}" for x, off in reversed(edge)]
    yield (
        f'<path class="rs-idle" d="M{"L".join([*upper, *lower])}z" fill="{LIGHT.idle}" '
        f'fill-opacity=".55"><title>half of the last {WINDOW} numbers</title></path>'
    )


def _dot(one: Kept, x: float, strip: float) -> str:
    verdict = one.verdict
    assert verdict is not None
    words = one.prompt.words
    label = (
        f"{one.prompt.key}: {words(verdict.guess)}; result {words(verdict.result)}; {verdict.words}"
    )
    title = f"<title>{_escaped(label)}</title>"
    if one.prompt.choices or verdict.ratio is None:
        y, right = (strip, verdict.off_by == 1) if one.prompt.choices else (_y(0.0), False)
    else:
        y, right = _y(verdict.ratio), True
    fill = f'class="rs-compute" fill="{LIGHT.compute}"' if right else 'fill="none"'
    return (
        f'<circle {fill} stroke="{LIGHT.compute}" stroke-width="1.5" cx="{num(x)}" cy="{num(y)}" '
        f'r="4">{title}</circle>'
    )


def _escaped(words: str) -> str:
    return words.replace("&", "&amp;").replace("<", "&lt;")


def _units(made: Sequence[Kept], step: float, end: float) -> Iterator[str]:
    """The units below, and lines between them."""
    start = 0
    for unit, group in groupby(one.prompt.key.partition("/")[0] for one in made):
        count = len(list(group))
        left, right = _LEFT + step * start, _LEFT + step * (start + count)
        start += count
        yield (
            f'<path class="rs-grid-line" d="M{num(right)} {num(_TOP)}V{num(end)}" '
            f'stroke="{LIGHT.grid}"/>'
        )
        yield text(
            (left + right) / 2, end + 18, unit, 11, role="muted", extra='text-anchor="middle"'
        )  # fmt: skip
