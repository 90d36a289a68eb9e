"""What a deck borrows from its executed lecture: pictures, printed lines, programs, prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from ringside.course.lectures.build import Notebook, untyped
from ringside.course.lectures.exhibits import image
from ringside.course.lectures.lecture import LectureError
from ringside.course.predictions.boxes import question_html
from ringside.course.predictions.in_notebook import guessed_in, prompt_of

# Columns of a program, or of what it printed: those that fit beside another one, in letters of a
# middle size or in small ones; in large letters; and at most. A line of an error may be wider.
NARROW, BESIDE, LARGE, COLUMNS, WIDEST = 42, 58, 64, 84, 92

_LINES = re.compile(r'(\S+) "([^"]+)" (\d+)$')


def html(kind: str, name: str, notebook: Notebook) -> str:
    """What a slide borrows.

    Raises:
        LectureError: the lecture has nothing of this name.
    """
    if kind == "code":
        lines = code(name, notebook)
        coloured = untyped("nbconvert.filters").Highlight2HTML()("\n".join(lines), "python")
        return f"<div{_size(lines)}>{coloured}</div>"
    if kind == "prompt":
        return question_html(prompt_of(_asking(name, notebook)))
    cell = _captioned(name, notebook) if kind == "figure" else with_words(name, notebook)
    shown = [_shown(output, kind == "output") for output in cell.outputs]
    if not any(shown):
        raise LectureError(f"borrows {{{kind} {name}}}, whose cell shows nothing.")
    return "".join(f'<div class="deck-shown">{one}</div>' for one in shown if one)


def _shown(output: Any, and_printed: bool) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        details = output.metadata["image/png"]
        return image(data["image/png"], details["alt"], details["width"])
    if "text/html" in data:
        return str(data["text/html"])
    lines = printed(output) if and_printed else []
    return f"<pre{_size(lines)}>{escape(chr(10).join(lines))}</pre>" if lines else ""


def _size(lines: Sequence[str]) -> str:
    """The attribute that asks for the letters which fit into a slide, or into half of one."""
    widest = max(map(len, lines), default=0)
    sizes = [(NARROW, "deck-narrow"), (LARGE, ""), (COLUMNS, "deck-wide")]
    size = next((name for bound, name in sizes if widest <= bound), "deck-widest")
    return f' class="{size}"' if size else ""


def printed(output: Any) -> list[str]:
    """The lines that an output prints, if it is no picture."""
    data = output.get("data", {})
    if {"image/png", "text/html"} & set(data):
        return []
    return str(output.get("text", data.get("text/plain", ""))).rstrip().splitlines()


def _asking(key: str, notebook: Notebook) -> Any:
    for cell in notebook.cells:
        if key in guessed_in(cell):
            return cell
    raise LectureError(f"asks {key!r}; the lecture has no such prompt.")


def _captioned(number: str, notebook: Notebook) -> Any:
    """The cell whose picture a caption names: the last above it that shows one."""
    last = None
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and re.search(
            rf"(?m)^\*Figure {re.escape(number)}\.", cell.source
        ):
            if last is None:
                break
            return last
        if cell.cell_type == "code" and any(_shown(one, False) for one in cell.outputs):
            last = None if guessed_in(cell) else cell
    raise LectureError(f"borrows figure {number}; the lecture has no caption '*Figure {number}.'.")


def with_words(quoted: str, notebook: Notebook) -> Any:
    words = quoted.strip('"')
    for cell in notebook.cells:
        if cell.cell_type == "code" and words in cell.source and cell.outputs:
            return cell
    raise LectureError(f"borrows the output of a cell with {words!r}; no cell that shows has it.")


def code(name: str, notebook: Notebook) -> list[str]:
    """Some lines of a program that the lecture writes."""
    asked = _LINES.fullmatch(name)
    if not asked:
        raise LectureError(f'has {{code {name}}}: write {{code FILE "words of a line" LINES}}.')
    file, words, count = asked[1], asked[2], int(asked[3])
    text: list[str] = []
    for cell in notebook.cells:
        first, _, rest = cell.source.partition("\n")
        if cell.cell_type == "code" and re.fullmatch(
            rf"%%writefile (-a )?{re.escape(file)}", first
        ):
            text += rest.splitlines()
    begin = next((at for at, line in enumerate(text) if words in line), None)
    if begin is None or begin + count > len(text):
        raise LectureError(
            f"borrows {count} lines from {words!r} of {file}; the lecture's has no such lines."
        )
    indent = min((len(one) - len(one.lstrip()) for one in text[begin:][:count] if one), default=0)
    return [line[indent:] for line in text[begin : begin + count]]
