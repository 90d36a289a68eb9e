"""A fresh notebook from the release, with a student's solution cells in it.

Only the source text of solution cells is moved over, by nbgrader's ``grade_id``. Everything else
of the submitted notebook (outputs, metadata, flags, points, kernel, other cells) stays behind,
and so do the tricks that live there. What is odd is said to the student, never guessed silently:

    cell missing           by its first line `%%module ring.py` another cell may be found;
                           else the file of this name that was handed in beside the notebook
    cell as released       the file of this name that was handed in beside the notebook, if any
    cell split in two      its parts are joined
    notebook damaged       the modules that were handed in beside it count
    cell there twice       the last one that was changed is taken, as running all cells would
    flags or type changed  ignored
    another file named     ignored: the file's name comes from the assignment's plan
"""

from __future__ import annotations

import copy
import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from autograder import notebooks
from autograder.collect.cluster_run import RunCheck
from autograder.collect.quarantine import Rejected, read_regular
from autograder.collect.zip_archive import MIB
from autograder.course.assignment import Assignment
from autograder.course.limits import Limits
from ringside.checking import cell_text

if TYPE_CHECKING:
    from nbformat import NotebookNode


@dataclass
class Rebuilt:
    """What is graded: the modules of a submission."""

    modules: dict[str, str] = field(default_factory=dict)  # name -> source text
    untouched: tuple[str, ...] = ()  # modules that are still as released
    notes: list[str] = field(default_factory=list)
    intake: list[str] = field(default_factory=list)  # notes that the instructor must hear, too
    texts: dict[str, str] = field(default_factory=dict)  # name -> what was written, for a person
    guesses: dict[str, list[float | str | None]] = field(
        default_factory=dict
    )  # key -> [guess, result]
    hints: dict[str, int] = field(default_factory=dict)  # module -> taken
    runs: list[RunCheck] = field(default_factory=list)
    request: str = ""  # for a regrade


@dataclass(kw_only=True)
class RebuiltNotebook(Rebuilt):
    """A notebook of ours, with the solutions that were handed in."""

    notebook: NotebookNode


@dataclass(frozen=True)
class _Cell:
    """One cell of the submitted notebook, as far as we read it."""

    source: str
    grade_id: str | None
    kind: str
    solution: bool
    checksum: str = ""  # nbgrader's, of the cell as it was released


def release_notebook(assignment: Assignment, release: Path) -> NotebookNode:
    """The notebook as students got it."""
    return notebooks.read(release / assignment.notebook)


def rebuild(
    assignment: Assignment,
    release: NotebookNode,
    submitted: bytes,
    beside: Mapping[str, str] = MappingProxyType({}),
) -> RebuiltNotebook:
    """Move the solutions of the `submitted` notebook into a copy of the `release`.

    Args:
        beside: the modules that were handed in as files; they count where their cell is missing
            or as it was released.

    Raises:
        Rejected: it is no notebook.
    """
    rebuilt = RebuiltNotebook(notebook=copy.deepcopy(release))
    limits = assignment.limits
    cells = _whole(_parse(submitted, limits), release, limits.module_bytes, rebuilt.notes)
    for cell in solution_cells(rebuilt.notebook):
        grade_id = cell.metadata.nbgrader.grade_id
        student_cell = _choose(cells, grade_id, cell.source, rebuilt.notes)
        if student_cell is None and cell.cell_type == "code":
            student_cell = _by_first_line(cells, grade_id, cell.source, rebuilt.notes)
        if student_cell is None and grade_id in beside:
            cell.source = _as_cell(grade_id, beside[grade_id])
            rebuilt.intake.append(
                f"The cell '{grade_id}' is missing in the notebook: {grade_id}.py, which was "
                "handed in beside it, counts."
            )
        elif student_cell is None:
            rebuilt.notes.append(f"The cell '{grade_id}' is missing: it counts as not done.")
        elif cell.cell_type == "code":
            source = _module_cell(grade_id, student_cell, rebuilt.notes)
            cell.source = _what_counts(student_cell, cell.source, source, beside, rebuilt.notes)
        elif student_cell.source.strip() != cell.source.strip():
            cell.source = as_plain_text(student_cell.source)
    _note_graded_cells(cells, release, rebuilt.notes)
    rebuilt.modules, rebuilt.untouched = modules_of(assignment, rebuilt.notebook, release)
    rebuilt.texts = texts_of(assignment, rebuilt.notebook, release)
    return rebuilt


def read_notebook(
    assignment: Assignment, release: NotebookNode, path: Path, beside: Rebuilt
) -> RebuiltNotebook:
    """The notebook at `path`; where it can't be read, the modules `beside` it count.

    Raises:
        Rejected: it can't be read, and no module was handed in beside it.
    """
    try:
        submitted = read_regular(path, limits=assignment.limits)
        return rebuild(assignment, release, submitted, beside.modules)
    except Rejected as rejected:
        if not beside.modules:
            raise
        rebuilt = as_notebook(assignment, release, beside)
        rebuilt.intake.insert(0, beside_sentence(str(rejected), beside.modules))
        return rebuilt


def beside_sentence(why: str, modules: Iterable[str]) -> str:
    """What is said where modules count instead of their notebook."""
    names = ", ".join(f"{name}.py" for name in modules)
    return f"{why} The files that were handed in beside it were graded instead: {names}."


def as_notebook(
    assignment: Assignment, release: NotebookNode, submitted: Rebuilt
) -> RebuiltNotebook:
    """The release with modules in it that were handed in as files."""
    rebuilt = RebuiltNotebook(
        modules=dict(submitted.modules),
        notes=list(submitted.notes),
        intake=list(submitted.intake),
        runs=list(submitted.runs),
        texts=dict(submitted.texts),
        notebook=copy.deepcopy(release),
    )
    for cell in solution_cells(rebuilt.notebook):
        name = cell.metadata.nbgrader.grade_id
        if name in submitted.modules and cell.cell_type == "code":
            cell.source = _as_cell(name, submitted.modules[name])
    return rebuilt


def _as_cell(name: str, source: str) -> str:
    return f"{cell_text.first_line(f'{name}.py')}\n" + source.rstrip("\n")


def _what_counts(
    cell: _Cell, stub: str, source: str, beside: Mapping[str, str], notes: list[str]
) -> str:
    """The source of a module's cell, or that of the file beside it, if nobody wrote in the cell.

    Args:
        cell: as it was handed in.
        stub: the cell's source in the release.
        source: the cell's source as we would take it.
    """
    name = str(cell.grade_id)
    body, stub_body, file = (
        cell_text.body_of(text) for text in (source, stub, beside.get(name, ""))
    )
    as_now = cell_text.alike(body, stub_body)
    as_then = cell_text.released(body, f"{name}.py", name, cell.checksum)
    if not (as_now or as_then):
        return source
    if name not in beside or cell_text.alike(file, body):
        return stub if as_now else source
    notes.append(
        f"The cell '{name}' is as it was released: {name}.py, which was handed in beside the "
        "notebook, counts."
    )
    return _as_cell(name, file)


def _whole(cells: list[_Cell], release: NotebookNode, most: int, notes: list[str]) -> list[_Cell]:
    """The cells, with each module's cell that was split in one piece again, of `most` bytes."""
    definitions = {
        cell.metadata.nbgrader.grade_id: cell_text.definitions(cell.source)
        for cell in solution_cells(release)
    }
    texts = [cell_text.Cell(cell.source, cell.grade_id, cell.kind == "code") for cell in cells]
    whole, k = [], 0
    while k < len(cells):
        name = _module_named(cells[k].source) if cells[k].kind == "code" else ""
        count = cell_text.num_parts(texts, k, definitions[name]) if name in definitions else 1
        if count > 1:
            notes.append(f"The cell '{name}' was split into {count}: they were joined.")
        source = cell_text.joined([text.source for text in texts[k : k + count]])[:most]
        whole.append(replace(cells[k], source=source) if count > 1 else cells[k])
        k += count
    return whole


def _module_named(source: str) -> str:
    """The module that a cell's first line names."""
    return cell_text.file_named(source).removesuffix(".py")


def solution_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that students fill in."""
    return [cell for cell in notebook.cells if notebooks.marks(cell).get("solution", False)]


def modules_of(
    assignment: Assignment, notebook: NotebookNode, release: NotebookNode
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The planned modules in a notebook of ours, and which of them are as released."""
    stubs = {cell.metadata.nbgrader.grade_id: cell.source for cell in solution_cells(release)}
    modules: dict[str, str] = {}
    untouched = []
    names = {module.name for module in assignment.modules}
    for cell in solution_cells(notebook):
        name = cell.metadata.nbgrader.grade_id
        if name not in names or cell.cell_type != "code":
            continue
        modules[name] = cell_text.body_of(cell.source).rstrip("\n") + "\n"
        if cell.source.strip() == stubs.get(name, "").strip():
            untouched.append(name)
    return modules, tuple(untouched)


def texts_of(
    assignment: Assignment, notebook: NotebookNode, release: NotebookNode
) -> dict[str, str]:
    """The texts in a notebook of ours that are not as released."""
    stubs = {cell.metadata.nbgrader.grade_id: cell.source for cell in solution_cells(release)}
    names = {paragraph.name for paragraph in assignment.paragraphs}
    return {
        name: plain_text(cell.source)
        for cell in solution_cells(notebook)
        if (name := cell.metadata.nbgrader.grade_id) in names
        and cell.source.strip() != stubs.get(name, "").strip()
    }


def modules_in_folder(assignment: Assignment, folder: Path) -> Rebuilt:
    """The planned modules among the files of `folder`; other files are not looked at.

    Their line ends are those of a notebook's cell, so that both ways are one text.
    """
    rebuilt = Rebuilt()
    for module in assignment.modules:
        path = folder / module.filename
        if not path.exists() and not path.is_symlink():
            continue
        try:
            text = read_regular(path, limits=assignment.limits).decode("utf-8-sig")
        except Rejected as rejected:
            rebuilt.notes.append(f"{rejected} It counts as not handed in.")
        except UnicodeDecodeError:
            rebuilt.notes.append(
                f"{module.filename} is not UTF-8 text: it counts as not handed in."
            )
        else:
            rebuilt.modules[module.name] = text.replace("\r\n", "\n").rstrip("\n") + "\n"
    return rebuilt


def as_plain_text(text: str) -> str:
    """A student's text as a markdown cell that can only show it.

    nbgrader's pages render markdown with raw HTML, and MathJax follows links: an instructor's
    session could be taken over. Inside a fence nothing is rendered.
    """
    lines = [
        part
        for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for part in (textwrap.wrap(line, 100, break_on_hyphens=False) or [""])
    ]
    runs = [len(run) for run in re.findall(r"~+", text)]
    # As many tildes as the fence has would end it, so it is longer than any run in the text.
    fence = "~" * max(3, *(run + 1 for run in runs), 3) if runs else "~~~"
    return "\n".join([f"{fence}text", *lines, fence])


def plain_text(source: str) -> str:
    """The text inside a cell that `as_plain_text` made."""
    lines = source.split("\n")
    if len(lines) >= 2 and lines[0].endswith("text") and lines[0][:-4] == lines[-1]:
        return "\n".join(lines[1:-1])
    return source


def _parse(submitted: bytes, limits: Limits) -> list[_Cell]:
    if len(submitted) > limits.notebook_bytes:
        raise Rejected(f"The notebook is larger than {limits.notebook_bytes / MIB:g} MiB.")
    try:
        document = json.loads(submitted.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError, ValueError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Rejected(f"The notebook is not valid JSON{where}: it can't be opened.") from error
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        raise Rejected("The file is not a Jupyter notebook of format 4: it has no list of cells.")
    if len(cells) > limits.notebook_cells:
        raise Rejected(f"The notebook has more than {limits.notebook_cells} cells.")
    return [_cell(cell, limits) for cell in cells if isinstance(cell, dict)]


def _cell(raw: dict[str, Any], limits: Limits) -> _Cell:
    source = raw.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    if not isinstance(source, str):
        source = ""
    metadata = raw.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    marks = marks if isinstance(marks, dict) else {}
    grade_id = marks.get("grade_id")
    # A lone surrogate is legal in JSON and in no file.
    source = source.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
    return _Cell(
        source=source[: limits.module_bytes],
        grade_id=grade_id if isinstance(grade_id, str) else None,
        kind=str(raw.get("cell_type")),
        solution=marks.get("solution") is True,
        checksum=str(marks.get("checksum", "")),
    )


def _choose(cells: list[_Cell], grade_id: str, stub: str, notes: list[str]) -> _Cell | None:
    """The cell of this id; of several, the last that was changed."""
    candidates = [cell for cell in cells if cell.grade_id == grade_id]
    if not candidates:
        return None
    changed = [cell for cell in candidates if cell.source.strip() != stub.strip()]
    chosen = (changed or candidates)[-1]
    if len(candidates) > 1:
        which = "the last one that was changed" if changed else "the last one"
        notes.append(f"The cell '{grade_id}' is there {len(candidates)} times: {which} was taken.")
    if not chosen.solution:
        notes.append(f"The flags of the cell '{grade_id}' were changed: they were ignored.")
    return chosen


def _by_first_line(cells: list[_Cell], grade_id: str, stub: str, notes: list[str]) -> _Cell | None:
    """A cell without id that writes this module's file, as some editors leave it."""
    orphans = [
        replace(cell, grade_id=grade_id, solution=True)
        for cell in cells
        if cell.grade_id is None
        and cell.kind == "code"
        and cell_text.file_named(cell.source) == f"{grade_id}.py"
    ]
    chosen = _choose(orphans, grade_id, stub, notes)
    if chosen is not None:
        notes.append(f"The cell '{grade_id}' had lost its id: it was found by its first line.")
    return chosen


def _module_cell(name: str, cell: _Cell, notes: list[str]) -> str:
    """The cell's source, with the first line that our plan gives."""
    if cell.kind != "code":
        notes.append(f"The cell '{name}' is no code cell any more: its text was taken as code.")
    source = cell.source.replace("\r\n", "\n").lstrip("\n")
    if not cell_text.has_first_line(source):
        line = cell_text.first_line(f"{name}.py")
        notes.append(f"The cell '{name}' has lost its first line {line}.")
    elif cell_text.file_named(source) != f"{name}.py":
        notes.append(f"The cell '{name}' names another file: it was taken as {name}.py.")
    return _as_cell(name, cell_text.body_of(source))


def _note_graded_cells(cells: list[_Cell], release: NotebookNode, notes: list[str]) -> None:
    """Say which check cells were deleted or changed. It has no effect: they are ours."""
    for cell in release.cells:
        marks = notebooks.marks(cell)
        if not marks.get("grade") or marks.get("solution"):
            continue
        submitted = [candidate for candidate in cells if candidate.grade_id == marks["grade_id"]]
        if not submitted:
            notes.append(f"The cell '{marks['grade_id']}' was deleted: it was put back.")
        elif len(submitted) > 1:
            notes.append(
                f"The cell '{marks['grade_id']}' is there {len(submitted)} times: "
                "the copies were ignored."
            )
        elif submitted[0].source.strip() != cell.source.strip():
            notes.append(f"The cell '{marks['grade_id']}' was changed: it was put back.")
