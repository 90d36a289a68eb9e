"""Prompts in a notebook: where a prediction is asked for, where its result is shown and explained.

    predict   guess("08/first-layer", ...)          a cell of its own, with the tag predict
    ...       code and output that give it away     folded on pages, a fragment on slides
    reveal    reveal("08/first-layer", result)      the last line of the cell that computes it
    ...       the paragraph that explains it        as above; students' notebooks don't hold it

`folded` says what lies behind a prompt. Pages, slides, students' notebooks and the search for
answers that are given away all go by it. By default the explanation is the prose directly below
the cell that reveals; checked cells and teachers' notes may stand between. Two tags say otherwise:
``explanation`` on a later cell, to which the explanation then goes, and ``open`` on a cell that
isn't part of it. An assignment's tasks, such as "**Explain.** Who waits?", explain nothing and
stay. No explanation goes beyond a heading, a prompt or another cell that reveals.

An executed notebook keeps what was revealed in the metadata of the cell: ``{"revealed": {key:
result}}``. It stands in no output, since no reader's predictions are there when it is executed.

Cells are those of nbformat, or the same as plain dictionaries.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ringside.course.predictions.boxes import question_html, question_text
from ringside.course.predictions.prompt import GuessError, Prompt, as_prompt

PREDICT, CHECKED, EXPLANATION, OPEN = "predict", "checked", "explanation", "open"  # tags

_ASKS = re.compile(r"\*\*(?:Explain|Think|Run)\b|\*Your answer")
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_CALL = re.compile(r"""^\s*(?:ringside\.)?(guess|reveal)\(\s*(["'])(.+?)\2""", re.MULTILINE)


def guessed_in(cell: Any) -> list[str]:
    """The keys that a cell asks for."""
    return _keys(cell, "guess")


def revealed_in(cell: Any) -> list[str]:
    """The keys whose results a cell shows."""
    return _keys(cell, "reveal")


def only_reveals(cell: Any) -> bool:
    """Whether a cell shows results and does nothing else."""
    lines = cell["source"].splitlines()
    return bool(revealed_in(cell)) and all(line.startswith(("reveal(", " ", ")")) for line in lines)


def _keys(cell: Any, name: str) -> list[str]:
    if cell["cell_type"] != "code":
        return []
    return [key for called, _, key in _CALL.findall(cell["source"]) if called == name]


def has_tag(cell: Any, tag: str) -> bool:
    return tag in cell["metadata"].get("tags", [])


def is_notes(cell: Any) -> bool:
    """Whether a cell is for teachers: the speaker's view of the slides, folded on pages."""
    return bool(cell["metadata"].get("slideshow", {}).get("slide_type") == "notes")


def is_aside(cell: Any) -> bool:
    """Whether a cell is no part of the text: a check or a note, which students don't get."""
    return is_notes(cell) or has_tag(cell, CHECKED)


def is_prose(cell: Any) -> bool:
    """Whether a cell is text for readers."""
    return cell["cell_type"] == "markdown" and not is_notes(cell)


def is_task(cell: Any) -> bool:
    """Whether a cell of an assignment asks its reader to do something, or has room for it."""
    return is_prose(cell) and bool(_ASKS.match(cell["source"]))


def is_heading(cell: Any) -> bool:
    """Whether a cell opens a section, which nothing that is folded may do."""
    return cell["cell_type"] == "markdown" and bool(_HEADING.search(cell["source"]))


@dataclass(frozen=True)
class Stretch:
    """What lies behind a prompt, by the places of cells.

    Attributes:
        start: the prompt.
        reveal: the cell that shows the result.
        end: the last cell that belongs to it, ``reveal`` where nothing explains it.
        explanation: the prose from ``reveal`` to ``end``.
    """

    start: int
    reveal: int
    end: int
    explanation: tuple[int, ...]


def stretches(cells: Sequence[Any]) -> list[Stretch]:
    """What lies behind each prompt that is revealed, in the order of the prompts."""
    last = {key: index for index, cell in enumerate(cells) for key in revealed_in(cell)}
    spans = []
    for start, cell in enumerate(cells):
        reveals = [last[key] for key in guessed_in(cell) if last.get(key, -1) > start]
        if reveals:
            prose, end = _explanation(cells, max(reveals))
            spans.append(Stretch(start, max(reveals), end, prose))
    return spans


def _explanation(cells: Sequence[Any], reveal: int) -> tuple[tuple[int, ...], int]:
    """The prose that explains what a cell reveals, and the last cell that belongs to it."""
    below = []
    for index in range(reveal + 1, len(cells)):
        if is_heading(cells[index]) or guessed_in(cells[index]) or revealed_in(cells[index]):
            break
        below.append(index)
    end = max((index for index in below if has_tag(cells[index], EXPLANATION)), default=reveal)
    if end == reveal:
        first = next((index for index in below if not is_aside(cells[index])), None)
        if first is not None and _may_explain(cells[first]):
            end = first
    return tuple(index for index in below if index <= end and _may_explain(cells[index])), end


def _may_explain(cell: Any) -> bool:
    return is_prose(cell) and not has_tag(cell, OPEN) and not is_task(cell)


def folded(cells: Sequence[Any]) -> list[bool]:
    """For each cell whether it lies behind a prompt, up to the end of the explanation.

    A prompt among them is seen, and what is behind it is folded anew. What is never revealed
    folds nothing.
    """
    behind = {p for one in stretches(cells) for p in range(one.start + 1, one.end + 1)}
    return [
        index in behind and not (guessed_in(cell) or is_heading(cell) or has_tag(cell, OPEN))
        for index, cell in enumerate(cells)
    ]


def prompt_of(cell: Any) -> Prompt:
    """The prompt that a cell asks, read from its text; nothing of it is run.

    Raises:
        GuessError: the cell isn't one call of guess with its question written out.
    """
    try:
        body = ast.parse(cell["source"]).body
    except SyntaxError:
        body = []
    match body:
        case [ast.Expr(ast.Call(ast.Name("guess"), positional, named))]:
            try:
                arguments = [ast.literal_eval(one) for one in positional]
                more = {str(one.arg): ast.literal_eval(one.value) for one in named}
                more.pop("value", None)
                return as_prompt(*arguments, **more)
            except (TypeError, ValueError):
                pass
    raise GuessError(
        "a prompt is one cell with one call, guess(key, question, ...), all of it written out:\n"
        + cell["source"]
    )


def wrong_prompts(cells: Sequence[Any]) -> Iterator[str]:
    """Yield what is wrong with a notebook's prompts, a sentence each."""
    starts: dict[str, int] = {}
    for index, cell in enumerate(cells):
        for key in revealed_in(cell):
            if key not in starts:
                yield f"cell {index} reveals {key!r}, which no cell above it asks for."
        keys = guessed_in(cell)
        if has_tag(cell, PREDICT) != bool(keys):
            yield f"cell {index}: the tag 'predict' and a call of guess belong on the same cell."
        if not keys:
            continue
        try:
            key = prompt_of(cell).key
        except GuessError as error:
            yield f"cell {index}: {error}"
            continue
        if key in starts:
            yield f"cell {index} asks for {key!r} again."
        starts[key] = index
    reveals = {key for cell in cells for key in revealed_in(cell)}
    for key, index in starts.items():
        if key not in reveals:
            yield f"cell {index} asks for {key!r}, which is never revealed."
    last = {key: index for index, cell in enumerate(cells) for key in revealed_in(cell)}
    for key, start in starts.items():
        for index in range(start + 1, last.get(key, start)):
            if is_heading(cells[index]):
                yield f"cell {index} opens a section before {key!r} is revealed."
    yield from _wrong_explanations(cells)


def _wrong_explanations(cells: Sequence[Any]) -> Iterator[str]:
    """Yield which explanations can't be told from what follows them."""
    spans = stretches(cells)
    explaining = {p for one in spans for p in range(one.reveal + 1, one.end + 1)}
    for index, cell in enumerate(cells):
        if has_tag(cell, EXPLANATION) and index not in explaining:
            yield f"cell {index}: the tag 'explanation' belongs behind a cell that reveals."
    for one in spans:
        below = range(one.reveal + 1, len(cells) if one.end == one.reveal else 0)
        first = next((index for index in below if not is_aside(cells[index])), -1)
        cell = cells[first]
        if first > 0 and is_heading(cell) and not (cell["source"][0] == "#" or is_task(cell)):
            yield (
                f"cell {first} explains what cell {one.reveal} reveals and opens a section: "
                "cut it in two before the heading."
            )


def show_prompts(notebook: Any) -> None:
    """Give every prompt its box as the cell's one output, also where nothing was executed."""
    new_output = importlib.import_module("nbformat").v4.new_output
    for cell in notebook.cells:
        if guessed_in(cell):
            prompt = prompt_of(cell)
            box = {"text/html": question_html(prompt), "text/plain": question_text(prompt)}
            cell.outputs = [new_output("display_data", box)]
