"""The text of a cell that writes a module: its first line, what it writes, and its other parts.

    %%module ring.py                the first line; `%%writefile ring.py` in older notebooks
    def all_reduce(comm, x):        what is written

Split Cell makes two cells of one. JupyterLab copies the metadata into both, so the second one has
the same id and no first line; other editors leave it without an id. Line ends at the cut are lost.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = [
    "STUB",
    "Cell",
    "alike",
    "body_of",
    "checksum",
    "definitions",
    "file_named",
    "first_line",
    "has_first_line",
    "joined",
    "module_of",
    "num_parts",
    "released",
]

_FIRST_LINE = re.compile(
    r"\s*%%(?:module|writefile|file)\b[ \t]*(?:-a\b[ \t]*)?['\"]?([^\s'\"]*)[^\n]*(?:\n|\Z)"
)
_MOST_PARTS = 20
_NAME = re.compile(r"[\w./-]+\.py")
_DEFINITION = re.compile(r"^(?:async +def|def|class) +(\w+)", re.MULTILINE)
# What stands in a release where a solution was: a text that still holds it isn't finished.
STUB = re.compile(r"^\s*raise NotImplementedError\b", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook, as far as its parts are found by it."""

    source: str
    grade_id: str | None = None
    is_code: bool = True


def first_line(file: str) -> str:
    """The first line of a cell that writes a file, as it is released."""
    return f"%%module {file}"


def module_of(source: str) -> str:
    """The file that a cell writes, such as "ring.py"; "" if its first line names none."""
    match = _FIRST_LINE.match(source)
    return match[1] if match and _NAME.fullmatch(match[1]) else ""


def has_first_line(source: str) -> bool:
    """Whether a cell begins as one that writes a file, however the file is named."""
    return _FIRST_LINE.match(source) is not None


def file_named(source: str) -> str:
    """What the first line names, be it a file of Python or not."""
    match = _FIRST_LINE.match(source)
    return match[1] if match else ""


def body_of(source: str) -> str:
    """A cell's text without such a first line."""
    return _FIRST_LINE.sub("", source, count=1).removeprefix("\ufeff")


def checksum(source: str, grade_id: object) -> str:
    """nbgrader's checksum of a cell that is to be filled in and has no points.

    As ``nbgrader.utils.compute_checksum``.
    """
    text = f"{source}code{False}{True}{False}{grade_id}"
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def released(body: str, file: str, grade_id: object, released_as: object, first: str = "") -> bool:
    """Whether a module's text is the one that was released, by nbgrader's checksum.

    Args:
        released_as: the checksum in the cell's metadata.
        first: a first line that may have been released, besides the usual ones.
    """
    lines = {first_line(file), f"%%writefile {file}", first}
    return any(checksum(f"{line}\n{body.rstrip()}", grade_id) == released_as for line in lines)


def definitions(text: str) -> set[str]:
    """The functions and classes that a text defines at its top, also where it doesn't parse."""
    return set(_DEFINITION.findall(text))


def alike(text: str, other: str) -> bool:
    """Whether two texts are the same but for empty lines and the white space at lines' ends."""
    return _lines(text) == _lines(other)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def joined(sources: Sequence[str], num_empty: int = 0) -> str:
    """The text of a cell that was split, with so many empty lines at each cut."""
    return ("\n" * (1 + num_empty)).join(source.strip("\n") for source in sources)


def num_parts(cells: Sequence[Cell], index: int, wanted: Collection[str] = ()) -> int:
    """How many cells, from one that writes a module on, are one cell that was split.

    Args:
        wanted: the functions and classes that the module is to define, where they are known.
    """
    text = cells[index].source
    count = 1
    for cell in cells[index + 1 :]:
        if count == _MOST_PARTS or not _continues(text, cells[index].grade_id, cell, wanted):
            break
        text = joined([text, cell.source])
        count += 1
    return count


def _continues(text: str, grade_id: str | None, cell: Cell, wanted: Collection[str]) -> bool:
    """Whether a cell is what was cut off from the text above it.

    A copy of a whole cell is none: it defines what the text defines already.
    """
    if not cell.is_code or not cell.source.strip() or cell.source.lstrip()[0] in "%!?":
        return False
    above, new = body_of(text), definitions(cell.source)
    if new & definitions(above):
        return False
    if cell.grade_id is not None:
        return cell.grade_id == grade_id
    if not _parses(joined([above, cell.source])):
        return False
    indented = cell.source.lstrip("\n")[0] in " \t"
    return indented or not _parses(above) or bool(new & set(wanted))


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
