"""A notebook as students get it: nothing in it answers a prompt before its reader has predicted.

    07_sharding.ipynb  ->  07_sharding.ipynb   no outputs, explanations, checked cells and notes;
                                               reveal("07/key") where the answer was written out
                           explanations.json   what `reveal` prints after a prediction

The package's build runs this before anything is installed, so it needs nothing but Python.
"""

from __future__ import annotations

import ast
import copy
import json
import symtable
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ringside.course.predictions import explained
from ringside.course.predictions.in_notebook import (
    CHECKED,
    EXPLANATION,
    OPEN,
    guessed_in,
    has_tag,
    is_aside,
    prompt_of,
    revealed_in,
    stretches,
)
from ringside.course.predictions.prompt import GuessError

NAME = explained.NAME
CLEARED = "cleared"  # metadata of a notebook that is as students get it
_TELLING = ("revealed", "known", "execution")  # metadata of cells, and when they were run
Notebook = dict[str, Any]
Entries = dict[str, dict[str, Any]]


def cleared(notebook: Mapping[str, Any]) -> tuple[Notebook, Entries]:
    """A notebook as students get it, and the entries of its explanations by key.

    Args:
        notebook: of format 4, executed or not; each cell's source is one text.

    Raises:
        GuessError: a cell that reveals can't be read.
    """
    mine = copy.deepcopy(dict(notebook))
    cells = mine["cells"]
    entries: Entries = {
        key: {"unit": prompt_of(cell).unit} for cell in cells for key in guessed_in(cell)
    }
    explaining: set[int] = set()
    for one in stretches(cells):
        if texts := [cells[index]["source"] for index in one.explanation]:
            entries[revealed_in(cells[one.reveal])[-1]]["text"] = "\n\n".join(texts)
            explaining.update(one.explanation)
    for cell in cells:
        if revealed_in(cell):
            cell["source"], answers = without_answers(cell["source"])
            for key, answer in answers.items():
                entries[key]["answer"] = answer
    mine["cells"] = [
        _unexecuted(cell)
        for index, cell in enumerate(cells)
        if index not in explaining and not is_aside(cell)
    ]
    return mine, entries


def _unexecuted(cell: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in cell["metadata"].items() if name not in _TELLING}
    if "tags" in metadata:
        tags = [tag for tag in metadata["tags"] if tag not in (EXPLANATION, OPEN)]
        metadata = {**metadata, "tags": tags} if tags else _without(metadata, "tags")
    cell["metadata"] = metadata
    if cell["cell_type"] == "code":
        cell["outputs"], cell["execution_count"] = [], None
    return cell


def _without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def without_answers(source: str) -> tuple[str, dict[str, float | str]]:
    """A cell's code whose calls of reveal hold no answer, and the answers that were written out.

    >>> without_answers('reveal("01/x", "ring")')
    ('reveal("01/x")', {'01/x': 'ring'})

    Raises:
        GuessError: it isn't Python.
    """
    # In bytes: ast counts columns in UTF-8, and str.splitlines ends lines where Python doesn't.
    lines = source.encode().splitlines(keepends=True)
    starts = [sum(map(len, lines[:row])) for row in range(len(lines))]
    answers: dict[str, float | str] = {}
    cuts = []
    for node in ast.walk(_parsed(source)):
        match node:
            case ast.Call(ast.Name("reveal"), [ast.Constant(str(key)) as first, value]):
                if not any(isinstance(part, ast.Name) for part in ast.walk(value)):
                    # What is evaluated are the course's own notebooks, as they are built: never a
                    # submission.
                    code = compile(ast.Expression(value), "<the answer>", "eval")
                    answers[key] = eval(code, {"__builtins__": {}})
                    cuts.append((_end(first, starts), _end(value, starts)))
    data = source.encode()
    # From the last one on, so that the places of the others stay right.
    for start, end in sorted(cuts, reverse=True):
        data = data[:start] + data[end:]
    return data.decode(), answers


def _end(node: ast.expr, starts: Sequence[int]) -> int:
    return starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)


def _parsed(source: str) -> ast.Module:
    """A cell's code without IPython's lines, every other line where it was."""
    try:
        return ast.parse(_python(source))
    except SyntaxError as error:
        raise GuessError(f"a cell that reveals isn't Python, {error}:\n{source}") from None


def _python(source: str) -> str:
    lines = []
    for line in source.split("\n"):
        code = line.lstrip()
        is_magic = code.startswith(("%", "!"))
        lines.append(line[: len(line) - len(code)] + "pass" if is_magic else line)
    return "\n".join(lines)


# Whole folders


def clear_folder(folder: Path) -> list[Path]:
    """Make every notebook of a folder one for students; return those that weren't.

    What explains them is added to the folder's ``explanations.json``.

    Raises:
        GuessError: a prompt or a cell that reveals can't be read.
        OSError: a file can't be written.
        ValueError: a file is no notebook.
    """
    paths, entries = [], {}
    for path in sorted(folder.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        if notebook["metadata"].get("ringside") == CLEARED:
            continue
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
        mine, here = cleared(notebook)
        mine["metadata"] = {**mine["metadata"], "ringside": CLEARED}
        path.write_text(as_json(mine), encoding="utf-8")
        entries.update(here)
        paths.append(path)
    if entries:
        write(folder / NAME, entries)
    return paths


def write(path: Path, entries: Entries) -> None:
    """Add explanations to a file, which is made if there is none."""
    old = json.loads(path.read_text(encoding="utf-8"))["explanations"] if path.is_file() else {}
    whole = {"format": explained.FORMAT, "explanations": old | entries}
    text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


def as_json(notebook: Notebook) -> str:
    """A notebook's file, as nbformat writes it."""
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].splitlines(keepends=True)
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


# Whether it still runs


def lacking(cells: Sequence[Any]) -> Iterator[str]:
    """Yield which cells use what only a checked cell defines, a sentence each."""
    defined: dict[str, int] = {}
    for index, cell in enumerate(cells):
        if cell["cell_type"] != "code" or cell["source"].startswith("%%"):
            continue
        try:
            table = symtable.symtable(_python(cell["source"]), "cell", "exec")
        except SyntaxError:
            continue
        here = {one.get_name() for one in table.get_symbols() if _defines(one)}
        if not has_tag(cell, CHECKED):
            for name in sorted(_used(table) - here):
                if name in defined and has_tag(cells[defined[name]], CHECKED):
                    yield f"cell {index} uses {name!r} of checked cell {defined[name]}."
        defined |= dict.fromkeys(here, index)


def _defines(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()


def _used(table: symtable.SymbolTable, *, outermost: bool = True) -> set[str]:
    """The names of the notebook that code uses, in its functions as well."""
    names = {
        one.get_name()
        for one in table.get_symbols()
        if one.is_referenced() and (outermost or one.is_global())
    }
    return names.union(*(_used(child, outermost=False) for child in table.get_children()))
