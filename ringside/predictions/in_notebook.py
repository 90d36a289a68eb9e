"""Prompts in a notebook: where a prediction is asked for, and where its result is shown.

    predict   guess("08/first-layer", ...)          a cell of its own, with the tag predict
    ...       code and output that give it away     folded on pages, a fragment on slides
    reveal    reveal("08/first-layer", result)      the last line of the cell that computes it

An executed notebook keeps what was revealed in the metadata of the cell: ``{"revealed": {key:
result}}``. It stands in no output, since without a prediction ``reveal`` shows nothing.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ringside.predictions.ask import as_prompt
from ringside.predictions.boxes import question_html, question_text
from ringside.predictions.prompt import GuessError, Prompt

PREDICT, CHECKED = "predict", "checked"  # tags

_CALL = re.compile(r"""^\s*(?:ringside\.)?(guess|reveal)\(\s*(["'])(.+?)\2""", re.MULTILINE)


def guessed_in(cell: Any) -> list[str]:
    """The keys that a cell asks for."""
    return _keys(cell, "guess")


def revealed_in(cell: Any) -> list[str]:
    """The keys whose results a cell shows."""
    return _keys(cell, "reveal")


def _keys(cell: Any, name: str) -> list[str]:
    if cell.cell_type != "code":
        return []
    return [key for called, _, key in _CALL.findall(cell.source) if called == name]


def has_tag(cell: Any, tag: str) -> bool:
    return tag in cell.metadata.get("tags", [])


def is_notes(cell: Any) -> bool:
    """Whether a cell is for teachers: the speaker's view of the slides, folded on pages."""
    return bool(cell.metadata.get("slideshow", {}).get("slide_type") == "notes")


def is_heading(cell: Any) -> bool:
    """Whether a cell opens a section, which nothing that is folded may do."""
    return cell.cell_type == "markdown" and bool(re.search(r"^#{1,6} ", cell.source, re.MULTILINE))


def folded(cells: Sequence[Any]) -> list[bool]:
    """For each cell whether it lies behind a prompt, up to and with the cell that reveals it.

    A prompt among them is seen, and what is behind it is folded anew. What is never revealed
    folds nothing.
    """
    last = {key: place for place, cell in enumerate(cells) for key in revealed_in(cell)}
    open_until, found = -1, []
    for place, cell in enumerate(cells):
        asked = [last.get(key, -1) for key in guessed_in(cell)]
        open_until = max(open_until, *asked) if asked else open_until
        found.append(not asked and place <= open_until and not is_heading(cell))
    return found


def prompt_of(cell: Any) -> Prompt:
    """The prompt that a cell asks, read from its text; nothing of it is run.

    Raises:
        GuessError: the cell isn't one call of guess with its question written out.
    """
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:
        body = []
    match body:
        case [ast.Expr(ast.Call(ast.Name("guess"), positional, named))]:
            try:
                given = [ast.literal_eval(one) for one in positional]
                more = {str(one.arg): ast.literal_eval(one.value) for one in named}
                more.pop("value", None)
                return as_prompt(*given, **more)
            except (TypeError, ValueError):
                pass
    raise GuessError(
        "a prompt is one cell with one call, guess(key, question, ...), all of it written out:\n"
        + cell.source
    )


def wrong_prompts(cells: Sequence[Any]) -> Iterator[str]:
    """Yield what is wrong with a notebook's prompts, a sentence each."""
    asked: dict[str, int] = {}
    for place, cell in enumerate(cells):
        for key in revealed_in(cell):
            if key not in asked:
                yield f"cell {place} reveals {key!r}, which no cell above it asks for."
        keys = guessed_in(cell)
        if has_tag(cell, PREDICT) != bool(keys):
            yield f"cell {place}: the tag 'predict' and a call of guess belong on the same cell."
        if not keys:
            continue
        try:
            key = prompt_of(cell).key
        except GuessError as error:
            yield f"cell {place}: {error}"
            continue
        if key in asked:
            yield f"cell {place} asks for {key!r} again."
        asked[key] = place
    found = {key for cell in cells for key in revealed_in(cell)}
    for key, place in asked.items():
        if key not in found:
            yield f"cell {place} asks for {key!r}, which is never revealed."
    last = {key: place for place, cell in enumerate(cells) for key in revealed_in(cell)}
    for key, start in asked.items():
        for place in range(start + 1, last.get(key, start)):
            if is_heading(cells[place]):
                yield f"cell {place} opens a section before {key!r} is revealed."


def show_prompts(notebook: Any) -> None:
    """Give every prompt its box as the cell's one output, also where nothing was executed."""
    new_output = importlib.import_module("nbformat").v4.new_output
    for cell in notebook.cells:
        if guessed_in(cell):
            prompt = prompt_of(cell)
            box = {"text/html": question_html(prompt), "text/plain": question_text(prompt)}
            cell.outputs = [new_output("display_data", box)]
