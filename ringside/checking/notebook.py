"""Modules in a notebook: the ``%%writefile ring.py`` cells beside the files they write.

The cell tells the story and is what the grader takes; the file is what runs. Whoever
edits only one of the two is told, and can copy either way. What is overwritten then is kept
beside it::

    ring.py.before-sync-1    a03_allreduce.ipynb.before-sync-1

A module that is still as it was released, in its cell and in its file, is nobody's work yet.
"""

from __future__ import annotations

import codecs
import hashlib
import itertools
import json
import os
import re
import time
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError

# Copies that a sync or `ringside update` left: nobody's to hand in.
KEPT = ("*.before-*", "*.as-released")
_TIME = "%Y-%m-%d %H:%M:%S"
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
    first: str = ""  # the first line
    marks: dict[str, Any] = field(default_factory=dict)  # nbgrader's

    def agrees_with(self, file: str) -> bool:
        return module_sha256(self.source.encode()) == module_sha256(file.encode())

    def was_released_as(self, source: str) -> bool:
        """Whether a source is the one that the assignment came with, by nbgrader's checksum."""
        cell = f"{self.first}\n{source.rstrip()}"
        # As nbgrader.utils.compute_checksum, for a cell that is to be filled in and has no points.
        parts = (cell, "code", False, True, False, self.marks.get("grade_id"))
        digest = hashlib.md5("".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()
        return digest == self.marks.get("checksum")


@dataclass(frozen=True)
class Difference:
    """A cell and a file of the same name that differ; `file` is None where there is none."""

    cell: ModuleCell
    file: str | None

    def __str__(self) -> str:
        name, book = self.cell.module, self.cell.notebook.name
        if self.file is None:
            return f"{name}: its cell in {book} was not run: there is no file"
        told = f"{name}: the file and its cell in {book} differ"
        if self.cell.was_released_as(self.cell.source):
            return f"{told}; the cell is still as released, the file is not"
        if self.cell.was_released_as(self.file):
            return f"{told}; the file is still as released, the cell is not"
        newer = "file" if self.file_is_newer else "notebook"
        file_s, book_s = (time.strftime(_TIME, time.localtime(at_s)) for at_s in self.changed_s)
        return f"{told}; the file was saved {file_s}, the notebook {book_s}: the {newer} is newer"

    @property
    def only_file_has_work(self) -> bool:
        """Whether the cell is as it was handed out, and the file isn't: nobody wrote there."""
        return (
            self.file is not None
            and self.cell.was_released_as(self.cell.source)
            and not self.cell.was_released_as(self.file)
        )

    @property
    def changed_s(self) -> tuple[float, float]:
        """When the file and the notebook were saved, in seconds since 1970."""
        path = self.cell.notebook.parent / self.cell.module
        return path.stat().st_mtime, self.cell.notebook.stat().st_mtime

    @property
    def file_is_newer(self) -> bool:
        """Whether the file is the side to take: the one with work in it, else the newer one."""
        if self.file is None or self.cell.was_released_as(self.file):
            return False
        of_file, of_notebook = self.changed_s
        return self.cell.was_released_as(self.cell.source) or of_file > of_notebook


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
            metadata = cell.get("metadata")
            marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
            marks = marks if isinstance(marks, dict) else {}
            yield ModuleCell(path, index, match[1], rest.removeprefix("\ufeff"), first, marks)


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
    """Where cells and files disagree. A cell that is as released needs no file.

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
            if file is None and cell.was_released_as(cell.source):
                continue
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
    """Why a command stops at differences, and how to go on; the newer side comes first."""
    lines = ["The notebook and the files disagree:"]
    lines += [f"  {difference}" for difference in found]
    ways = [
        f"{command} --from-notebook   takes the cells (save the notebook first)",
        f"{command} --from-files      takes the files (reload the notebook afterwards)",
    ]
    files = [difference for difference in found if difference.file is not None]
    if not files:
        return "\n".join([*lines, ways[0]])
    for_files = sum(difference.file_is_newer for difference in files)
    if 2 * for_files > len(files):
        ways.reverse()
    lines += ways
    if 0 < for_files < len(files):
        lines.append("Some files are newer and some cells are: compare them before you choose.")
    name = files[0].cell.module
    lines.append(f"What is overwritten is kept beside it, as {name}.before-sync-1.")
    return "\n".join(lines)


def write_files(found: Sequence[Difference], without_copy: Container[str] = ()) -> list[str]:
    """Write the files from the cells; return what was done.

    What a file held is kept beside it, but for the files of the names ``without_copy``.
    """
    done = []
    for difference in found:
        cell = difference.cell
        path = cell.notebook.parent / cell.module
        if path.resolve().parent != cell.notebook.parent.resolve():
            raise NotebookError(f"{cell.module}: a cell may only write into the notebook's folder.")
        copied = difference.file is not None and cell.module not in without_copy
        kept = _keep(path) if copied else ""
        _replace(path, cell.source.rstrip("\n") + "\n")
        done.append(f"wrote {cell.module} from {cell.notebook.name}{kept}")
    return done


def write_cells(found: Sequence[Difference]) -> list[str]:
    """Write the cells from the files; return what was done."""
    done = []
    for notebook in sorted({difference.cell.notebook for difference in found}):
        changed = [
            difference
            for difference in found
            if difference.cell.notebook == notebook and difference.file is not None
        ]
        if not changed:
            continue
        content, kept = read(notebook), _keep(notebook)
        for difference in changed:
            cell = content["cells"][difference.cell.index]
            first = _source(cell).partition("\n")[0]
            source = f"{first}\n{(difference.file or '').rstrip()}"
            cell["source"] = source.splitlines(keepends=True)
            done.append(f"wrote the cell of {difference.cell.module} in {notebook.name}{kept}")
        _replace(notebook, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return done


def _keep(path: Path) -> str:
    """Copy a file before it is overwritten, under a name that is free; says which."""
    for number in itertools.count(1):
        kept = path.with_name(f"{path.name}.before-sync-{number}")
        try:
            with kept.open("xb") as copy:
                copy.write(path.read_bytes())
        except FileExistsError:
            continue
        return f"; what it was is kept as {kept.name}"
    raise AssertionError("numbers end")


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
