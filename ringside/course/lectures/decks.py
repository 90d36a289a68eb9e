"""A lecture's deck: the talk of its meetings, whose pictures and programs are those of the lecture.

    lectures/decks/07_sharding.md        beside lectures/07_sharding.ipynb

    # Meeting 1                          the title slide, with the sections of this meeting

    ## All-reduce is two halves          a slide; its title is the claim
    A few words, or a table.             at most 25 words, or 8 rows
    {figure 1}                           the picture above the caption *Figure 1. ...*
    {code ahead.py "def step" 9}         9 lines of a program, from the first that has these words
    {output "stages_gb ="}               what the first cell with these words printed and drew
    Note: where classes stumble.         up to the next slide: the speaker's view

    ## {prompt 07/halves}                a slide that holds the question alone

Two pictures or programs on a slide stand side by side. Every number of a slide must be the
lecture's: a cell, a text or an output of it holds the same number. What must fit is counted here;
a test opens all decks in a browser of 1280 by 800 and measures them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringside.course.lectures import borrowed, meetings
from ringside.course.lectures.build import Notebook, untyped
from ringside.course.lectures.lecture import LectureError
from ringside.course.predictions.in_notebook import is_notes

WORDS, LINES, ROWS = 25, 12, 8  # of a slide, at most
SLIDES = (22, 26)  # of a meeting of 70 minutes

_BORROWED = re.compile(r"\{(figure|prompt|code|output) ([^{}]+)\}")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_MATHS = re.compile(r"\$[^$]+\$")
_WORD = re.compile(r"[^\W_][\w.,'/-]*")


@dataclass
class Slide:
    """What stands on a slide, as it is written."""

    number: int
    title: str
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exhibits(self) -> list[tuple[str, str]]:
        """The kind and the name of what comes from the lecture."""
        return [found for line in (self.title, *self.lines) for found in _BORROWED.findall(line)]

    @property
    def text(self) -> str:
        return "\n".join(line for line in self.lines if not _BORROWED.fullmatch(line.strip()))

    @property
    def table(self) -> list[str]:
        return [line for line in self.lines if line.lstrip().startswith("|")]

    @property
    def asks(self) -> bool:
        return self.title.startswith("{prompt ")


@dataclass
class Meeting:
    """The slides of one meeting, its title slide aside."""

    number: int
    slides: list[Slide] = field(default_factory=list)


def source_of(notebook: Path) -> Path:
    """Where the deck of a lecture's notebook is, if it has one."""
    return notebook.parent / "decks" / f"{notebook.stem}.md"


def read(path: Path) -> list[Meeting]:
    """The meetings of a deck.

    Raises:
        LectureError: a line stands before the first meeting or slide.
    """
    found: list[Meeting] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if opened := re.fullmatch(r"# Meeting (\d+)", line):
            found.append(Meeting(int(opened[1])))
        elif found and line.startswith("## "):
            found[-1].slides.append(Slide(len(found[-1].slides) + 1, line.removeprefix("## ")))
        elif found and found[-1].slides:
            slide = found[-1].slides[-1]
            if slide.notes or line.startswith("Note:"):
                slide.notes.append(line.removeprefix("Note:").strip())
            else:
                slide.lines.append(line)
        elif line:
            raise LectureError(
                f"{path}:{number}: {line!r} is on no slide: first comes '# Meeting 1', then "
                "'## ' and a title."
            )
    return found


def wrong(deck: Sequence[Meeting], notebook: Notebook) -> Iterator[str]:
    """Yield what is wrong with a deck, a sentence each."""
    planned = meetings.minutes(meetings.sections(notebook.cells))
    held = [meeting.number for meeting in deck]
    if held != list(planned):
        yield f"its meetings are {held}; the lecture's are {list(planned)}."
    numbers = set(_numbers(_everything(notebook)))
    for meeting in deck:
        low, high = (round(bound * planned.get(meeting.number, 70) / 70) for bound in SLIDES)
        if not low <= len(meeting.slides) <= high:
            yield (
                f"meeting {meeting.number} has {len(meeting.slides)} slides; "
                f"its {planned.get(meeting.number, 70)} minutes take {low} to {high}."
            )
        for slide in meeting.slides:
            where = f"meeting {meeting.number}, slide {slide.number} ({slide.title!r})"
            yield from (f"{where} {fault}" for fault in _faults(slide, notebook, numbers))


def cells(deck: Sequence[Meeting], notebook: Notebook) -> list[Any]:
    """The cells of the notebook that the exporter makes slides of."""
    new = untyped("nbformat").v4.new_markdown_cell
    made = []
    for meeting in deck:
        # A meeting is a column of slides.
        made.append(new(_opening(meeting, notebook), metadata=_kind("slide")))
        for slide in meeting.slides:
            made.append(new(_page(slide, notebook), metadata=_kind("subslide")))
            if slide.notes:
                made.append(new("\n".join(slide.notes).strip(), metadata=_kind("notes")))
    return made


def _kind(name: str) -> dict[str, dict[str, str]]:
    return {"slideshow": {"slide_type": name}}


def _opening(meeting: Meeting, notebook: Notebook) -> str:
    title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
    there = [one for one in meetings.sections(notebook.cells) if one.meeting == meeting.number]
    rows = [f"{one.heading} | {one.minutes}" for one in there]
    return "\n".join(
        [
            '<div class="deck">',
            "",
            f"## {title}",
            "",
            f"Meeting {meeting.number} | minutes",
            "---|---:",
            *rows,
            "",
            "</div>",
        ]
    )


def _page(slide: Slide, notebook: Notebook) -> str:
    """A slide as Markdown with HTML in it."""
    pictures = [_one_line(borrowed.html(kind, name, notebook)) for kind, name in slide.exhibits]
    many = " deck-two" if len(pictures) > 1 else ""
    if many and all("deck-narrow" in one for one in pictures if "<pre" in one):
        many += " deck-larger"
    head = [] if slide.asks else [f"## {slide.title}", "", slide.text.strip(), ""]
    row = [f'<div class="deck-row{many}">{"".join(pictures)}</div>', ""] if pictures else []
    kind = "deck deck-prompt" if slide.asks else "deck"
    return "\n".join([f'<div class="{kind}">', "", *head, *row, "</div>"])


def _one_line(html: str) -> str:
    """HTML in which Markdown finds no end of a block."""
    return html.strip().replace("\n", "&#10;") if "<pre" in html else " ".join(html.split("\n"))


def _faults(slide: Slide, notebook: Notebook, numbers: set[str]) -> Iterator[str]:
    words = _words(slide)
    if words > WORDS:
        yield f"has {words} words; at most {WORDS} can be read while you talk."
    if len(slide.table) > ROWS + 2:
        yield f"has a table of {len(slide.table) - 2} rows; at most {ROWS}."
    if len(slide.title) > 90:
        yield f"has a title of {len(slide.title)} letters; at most 90 stand on two lines."
    if slide.asks and (slide.text.strip() or len(slide.exhibits) > 1):
        yield "holds a prompt and something else: a question stands alone."
    if not (slide.asks or slide.notes):
        yield "has no note for the speaker: what to ask, where classes stumble, or the minutes."
    if len(slide.exhibits) > 2:
        yield f"borrows {len(slide.exhibits)} pictures or programs; at most two fit."
    for number in _numbers(f"{slide.title}\n{slide.text}"):
        if number not in numbers:
            yield f"says {number}; the lecture has no such number."
    for line in map(str.strip, slide.lines):
        if line.startswith("{") and not _BORROWED.fullmatch(line):
            yield f"has {line!r}, which borrows nothing: a name has no braces in it."
    for kind, name in slide.exhibits:
        try:
            yield from _too_large(kind, name, slide, notebook)
        except LectureError as error:
            yield str(error)


def _too_large(kind: str, name: str, slide: Slide, notebook: Notebook) -> Iterator[str]:
    """What of a borrowed thing doesn't fit."""
    borrowed.html(kind, name, notebook)
    lines: list[str] = []
    if kind == "code":
        lines = borrowed.code(name, notebook)
    elif kind == "output":
        lines = [
            line
            for one in borrowed.with_words(name, notebook).outputs
            for line in borrowed.printed(one)
        ]
    if len(lines) > LINES:
        yield f"shows {len(lines)} lines of {kind}; at most {LINES}."
    widest = max(map(len, lines), default=0)
    alone = borrowed.WIDEST if kind == "output" else borrowed.COLUMNS
    if widest > (wide := borrowed.BESIDE if len(slide.exhibits) > 1 else alone):
        yield f"shows {kind} of {widest} columns; here at most {wide} fit."


def _words(slide: Slide) -> int:
    """Words beside title, table and what is borrowed; a formula is one."""
    lines = [line for line in slide.text.splitlines() if line not in slide.table]
    return len(_WORD.findall(_MATHS.sub(" formula ", "\n".join(lines))))


def _numbers(text: str) -> Iterator[str]:
    """The numbers in a text that could be wrong: of two digits or more."""
    for found in _NUMBER.findall(text.replace("{,}", "")):
        number = found.replace(",", "").rstrip(".")
        if len(number) > 1:
            yield number


def _everything(notebook: Notebook) -> str:
    """All text of a lecture that readers see, and what its cells say and show."""
    shown = []
    for cell in notebook.cells:
        if not is_notes(cell):
            shown.append(cell.source)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            shown += [output.get("text", ""), data.get("text/plain", "")]
            if len(page := data.get("text/html", "")) < 20_000:
                shown.append(page)
    return "\n".join(shown)
