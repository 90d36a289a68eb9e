"""Modules in a notebook: the ``%%module ring.py`` cells beside the files they write.

    the cell        the file        what counts
    as released     as released     nobody's work yet
    as released     written         the file: the cell gives way
    written         as released     neither, until they agree: the reader is told, and can
    written         written           copy either way; what is overwritten is kept beside it

    ring.py.before-sync-1    a03_allreduce.ipynb.before-sync-1

A cell that was split in two counts as one.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ringside.checking import cell_records, cell_text
from ringside.checking.cell_records import module_sha256
from ringside.errors import RingsideError
from ringside.files import keep, write_atomically

__all__ = [
    "KEPT",
    "Difference",
    "ModuleCell",
    "NotebookError",
    "checksums",
    "differences",
    "giving_way",
    "handed_in",
    "module_cells",
    "module_sha256",
    "notebooks",
    "read",
    "refusal",
    "split",
    "split_sentence",
    "with_texts",
    "write_cells",
    "write_files",
]

# Copies that a sync or `ringside update` left: nobody's to hand in.
KEPT = ("*.before-*", "*.as-released")
_TIME = "%Y-%m-%d %H:%M:%S"


class NotebookError(RingsideError):
    """A notebook that can't be read, or that disagrees with the files beside it."""


@dataclass(frozen=True)
class ModuleCell:
    """One cell that writes a module, or several that were one before it was split."""

    notebook: Path
    index: int
    module: str  # "ring.py"
    source: str  # without the first line
    first: str = ""  # the first line
    marks: dict[str, Any] = field(default_factory=dict, hash=False)  # nbgrader's
    num_parts: int = 1

    @property
    def path(self) -> Path:
        """The file that the cell writes."""
        return self.notebook.parent / self.module

    def agrees_with(self, file: str) -> bool:
        if self.num_parts > 1:  # a cut loses empty lines
            return cell_text.alike(self.source, file)
        return module_sha256(self.source.encode()) == module_sha256(file.encode())

    def was_released_as(self, source: str) -> bool:
        """Whether a source is the one that the assignment came with, by nbgrader's checksum."""
        marks = self.marks
        return cell_text.released(
            source, self.module, marks.get("grade_id"), marks.get("checksum"), self.first
        )


@dataclass(frozen=True)
class Difference:
    """A cell and a file of the same name that differ; `file` is None where there is none."""

    cell: ModuleCell
    file: str | None

    def __str__(self) -> str:
        name, book = self.cell.module, self.cell.notebook.name
        if self.file is None:
            return f"{name}: its cell in {book} was not run: there is no file"
        text = f"{name}: the file and its cell in {book} differ"
        if self.cell.was_released_as(self.cell.source):
            return f"{text}; the cell is still as released, the file is not"
        if self.cell.was_released_as(self.file):
            return f"{text}; the file is still as released, the cell is not"
        newer = "file" if self.file_is_newer else "notebook"
        file_s, book_s = (time.strftime(_TIME, time.localtime(at_s)) for at_s in self.changed_s)
        return f"{text}; the file was saved {file_s}, the notebook {book_s}: the {newer} is newer"

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
        return self.cell.path.stat().st_mtime, self.cell.notebook.stat().st_mtime

    @property
    def file_is_newer(self) -> bool:
        """Whether the file is the side to take: the one with work in it, else the newer one."""
        if self.file is None or self.cell.was_released_as(self.file):
            return False
        of_file, of_notebook = self.changed_s
        return self.cell.was_released_as(self.cell.source) or of_file > of_notebook


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
    cells = [_as_text(cell) for cell in content["cells"]]
    for index, cell in enumerate(cells):
        module = cell_text.module_of(cell.source) if cell.is_code else ""
        if not module:
            continue
        definitions: set[str] = set()  # what the file beside it defines, if it was written before
        with contextlib.suppress(OSError, NotebookError):
            definitions = cell_text.definitions(_text(path.parent / module))
        count = cell_text.num_parts(cells, index, definitions)
        first, _, _ = cell.source.lstrip().partition("\n")
        parts = [part.source for part in cells[index : index + count]]
        whole = ModuleCell(path, index, module, "", first, _marks(content["cells"][index]), count)
        if count == 1:
            yield replace(whole, source=cell_text.body_of(cell.source))
            continue
        # A cut takes up to two empty lines away: is it a stub that was cut?
        bodies = [cell_text.body_of(cell_text.joined(parts, empty)) for empty in range(3)]
        body = next(filter(whole.was_released_as, bodies), bodies[0])
        yield replace(whole, source=body)


def _as_text(cell: Any) -> cell_text.Cell:
    """A notebook's cell as its parts are found by it."""
    if not isinstance(cell, dict):
        return cell_text.Cell("", None, False)
    grade_id = _marks(cell).get("grade_id")
    is_code = cell.get("cell_type") == "code"
    return cell_text.Cell(_source(cell), grade_id if isinstance(grade_id, str) else None, is_code)


def _marks(cell: dict[str, Any]) -> dict[str, Any]:
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks if isinstance(marks, dict) else {}


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def checksums(folder: Path, module: str) -> set[str]:
    """nbgrader's checksums of the cells that are to write a module, in the folder's notebooks.

    They stay what they were whatever is written in a cell, saved or not.
    """
    digests = set()
    for path in sorted(folder.glob("*.ipynb")):
        try:
            cells = read(path)["cells"]
        except NotebookError:
            continue
        for marks in (_marks(cell) for cell in cells if isinstance(cell, dict)):
            if f"{marks.get('grade_id')}.py" == module and isinstance(marks.get("checksum"), str):
                digests.add(marks["checksum"])
    return digests


def notebooks(folder: Path) -> list[Path]:
    """The folder's notebooks that hold modules."""
    paths = []
    for path in sorted(folder.glob("*.ipynb")):
        if module_cells(path):
            paths.append(path)
    return paths


def differences(folder: Path, modules: Sequence[str] = ()) -> list[Difference]:
    """Where cells and files disagree, so that nobody knows which of the two counts.

    A cell that is as released needs no file, and gives way to one.

    Args:
        folder: holds notebooks and modules.
        modules: names without ``.py``; empty: all.
    """
    return [diff for diff in _compare(folder, modules) if not diff.only_file_has_work]


def giving_way(folder: Path, modules: Sequence[str] = ()) -> list[Difference]:
    """Cells that are as released, beside files that are not: the files count."""
    return [diff for diff in _compare(folder, modules) if diff.only_file_has_work]


def _compare(folder: Path, modules: Sequence[str]) -> Iterator[Difference]:
    for notebook in notebooks(folder):
        for cell in module_cells(notebook):
            if modules and Path(cell.module).stem not in modules:
                continue
            file = _text(cell.path) if cell.path.is_file() else None
            if file is None and cell.was_released_as(cell.source):
                continue
            if file is None or not cell.agrees_with(file):
                yield Difference(cell, file)


def split(folder: Path, modules: Sequence[str] = ()) -> list[ModuleCell]:
    """Cells that were split."""
    cells = [cell for notebook in notebooks(folder) for cell in module_cells(notebook)]
    candidates = [cell for cell in cells if not modules or Path(cell.module).stem in modules]
    return [cell for cell in candidates if cell.num_parts > 1]


def split_sentence(cell: ModuleCell) -> str:
    """What is said of a cell that was split."""
    return (
        f"the cell of {cell.module} in {cell.notebook.name} was split into {cell.num_parts}: "
        "they count as one. Only the first writes the file: merge them in the notebook."
    )


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


def write_files(found: Sequence[Difference]) -> list[str]:
    """Write the files from the cells; return what was done.

    What a file held is kept beside it, unless a cell wrote it.
    """
    done = []
    for difference in found:
        cell, path = difference.cell, difference.cell.path
        if path.resolve().parent != cell.notebook.parent.resolve():
            raise NotebookError(f"{cell.module}: a cell may only write into the notebook's folder.")
        with cell_records.record(path.parent) as record:
            remark = ""
            if path.is_file() and not record.has(cell.module, path.read_bytes()):
                remark = f"; what it was is kept as {keep(path, 'sync')}"
            data = (cell.source.rstrip("\n") + "\n").encode()
            write_atomically(path, data)
            record.add(cell.module, data)
        done.append(f"wrote {cell.module} from {cell.notebook.name}{remark}")
    return done


def write_cells(found: Sequence[Difference]) -> list[str]:
    """Write the cells from the files; return what was done."""
    done = []
    for notebook in sorted({difference.cell.notebook for difference in found}):
        changed = {
            difference.cell: difference.file
            for difference in found
            if difference.cell.notebook == notebook and difference.file is not None
        }
        if not changed:
            continue
        data = with_texts(notebook, changed)
        remark = f"; what it was is kept as {keep(notebook, 'sync')}"
        for cell in changed:
            done.append(f"wrote the cell of {cell.module} in {notebook.name}{remark}")
        write_atomically(notebook, data)
    return done


def with_texts(path: Path, texts: dict[ModuleCell, str]) -> bytes:
    """A notebook's file with other texts in some of its cells; what was split is one cell again."""
    content = read(path)
    cells = content["cells"]
    # From the end: taking parts away moves the cells behind them.
    for cell in sorted(texts, key=lambda cell: -cell.index):
        source = f"{cell.first}\n{texts[cell].rstrip()}"
        cells[cell.index]["source"] = source.splitlines(keepends=True)
        del cells[cell.index + 1 : cell.index + cell.num_parts]
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(
        "utf-8", "surrogatepass"
    )


def handed_in(folder: Path) -> dict[ModuleCell, str]:
    """The text that counts, of each cell that doesn't hold it as it stands.

    It is the file's where the cell is as released, and where the cell was split.
    """
    texts = {diff.cell: diff.file or "" for diff in giving_way(folder)}
    for cell in split(folder):
        agrees = cell.path.is_file() and cell.agrees_with(text := _text(cell.path))
        texts.setdefault(cell, text if agrees else cell.source)
    return texts
