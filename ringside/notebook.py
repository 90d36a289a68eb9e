"""Modules in a notebook: the ``%%writefile ring.py`` cells beside the files they write.

The cell tells the story and is what the grader takes; the file is what runs. Whoever
edits only one of the two is told, and can copy either way.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError

_WRITEFILE = re.compile(r"%%writefile\s+(?:-a\s+)?['\"]?([\w./-]+\.py)['\"]?\s*$")


class NotebookError(RingsideError):
    """A notebook that can't be read, or that disagrees with the files beside it."""


@dataclass(frozen=True)
class ModuleCell:
    """One ``%%writefile`` cell."""

    notebook: Path
    index: int
    module: str  # "ring.py"
    source: str  # without the first line

    def agrees_with(self, file: str) -> bool:
        return module_sha256(self.source.encode()) == module_sha256(file.encode())


@dataclass(frozen=True)
class Difference:
    """A cell and a file of the same name that differ; `file` is None where there is none."""

    cell: ModuleCell
    file: str | None

    def __str__(self) -> str:
        name = self.cell.module
        if self.file is None:
            return f"{name}: its cell in {self.cell.notebook.name} was not run: there is no file"
        return f"{name}: the file and its cell in {self.cell.notebook.name} differ"


def module_sha256(source: bytes) -> str:
    """The name of a module's exact content, however its lines and its last line end.

    A notebook's cell has no line end after its last line, and the file written from it has one.
    A byte order mark, which a file may begin with, never gets into a cell.
    """
    lines = source.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    return hashlib.sha256(lines).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """Read a notebook.

    Raises:
        NotebookError: the file is no notebook.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotebookError(f"{path.name} can't be read as a notebook: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("cells"), list):
        raise NotebookError(f"{path.name} is no notebook: it has no cells.")
    return content


def module_cells(path: Path) -> list[ModuleCell]:
    """The cells of a notebook that write modules, in order."""
    return list(_module_cells(path, read(path)))


def _module_cells(path: Path, content: dict[str, Any]) -> Iterator[ModuleCell]:
    for index, cell in enumerate(content["cells"]):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        first, _, rest = _source(cell).partition("\n")
        match = _WRITEFILE.match(first)
        if match:
            yield ModuleCell(path, index, match[1], rest.removeprefix("\ufeff"))


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(source) if isinstance(source, list) else str(source)


def notebooks(folder: Path) -> list[Path]:
    """The folder's notebooks that hold modules."""
    found = []
    for path in sorted(folder.glob("*.ipynb")):
        if module_cells(path):
            found.append(path)
    return found


def differences(folder: Path, modules: Sequence[str] = ()) -> list[Difference]:
    """Where cells and files disagree.

    Args:
        folder: holds notebooks and modules.
        modules: names without ``.py``; empty: all.
    """
    found = []
    for notebook in notebooks(folder):
        for cell in module_cells(notebook):
            if modules and Path(cell.module).stem not in modules:
                continue
            path = folder / cell.module
            file = _text(path) if path.is_file() else None
            if file is None or not cell.agrees_with(file):
                found.append(Difference(cell, file))
    return found


def _text(path: Path) -> str:
    """A module's text. The byte order mark that some editors put first is no part of it."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NotebookError(
            f"{path.name}:{line} is not UTF-8 text: let your editor save the file as UTF-8."
        ) from None
    return text.replace("\r\n", "\n")


def refusal(found: Sequence[Difference], command: str) -> str:
    """Why a command stops at differences, and how to go on."""
    lines = ["The notebook and the files disagree:"]
    lines += [f"  {difference}" for difference in found]
    lines.append(f"{command} --from-notebook   takes the cells (save the notebook first)")
    if any(difference.file is not None for difference in found):
        lines.append(
            f"{command} --from-files      takes the files (reload the notebook afterwards)"
        )
    return "\n".join(lines)


def write_files(found: Sequence[Difference]) -> list[str]:
    """Write the files from the cells; return what was done."""
    done = []
    for difference in found:
        cell = difference.cell
        path = cell.notebook.parent / cell.module
        if path.resolve().parent != cell.notebook.parent.resolve():
            raise NotebookError(f"{cell.module}: a cell may only write into the notebook's folder.")
        _replace(path, cell.source.rstrip("\n") + "\n")
        done.append(f"wrote {cell.module} from {cell.notebook.name}")
    return done


def write_cells(found: Sequence[Difference]) -> list[str]:
    """Write the cells from the files; return what was done."""
    done = []
    for notebook in sorted({difference.cell.notebook for difference in found}):
        content = read(notebook)
        for difference in found:
            if difference.cell.notebook != notebook or difference.file is None:
                continue
            cell = content["cells"][difference.cell.index]
            first = _source(cell).partition("\n")[0]
            source = f"{first}\n{difference.file.rstrip()}"
            cell["source"] = source.splitlines(keepends=True)
            done.append(f"wrote the cell of {difference.cell.module} in {notebook.name}")
        _replace(notebook, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return done


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
