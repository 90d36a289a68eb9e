"""Builds what students get from what instructors write.

solutions/<a>/ring.py, notebook.py, assignment.toml
    -> build/source/<a>/<a>.ipynb          nbgrader's instructor version, and explanations.json
    -> assignments/<a>/<a>.ipynb           by nbgrader's own generate_assignment

``notebook.py`` is in jupytext's percent format. A code cell that holds one of these lines
and nothing else is a directive:

    # {{plan}}                               the table of modules, points and hours
    # {{module ring}}                        the cell that writes ring.py, to be filled in
    # {{check ring}}                         the cell that checks it; its points are the weight
    # {{run ring_cluster points=5}}          the cell that the cluster run is graded in
    # {{paragraph cluster_report points=5}}  a text that a person grades

nbgrader works in a scratch folder on a throw-away gradebook: with submissions in the real one
it deletes the release first and may then refuse. The result is swapped in when it is whole. What
lay there and was not built, an attempt in assignments/ or a cell added in source/, is kept:

    build/built/{source,assignments}/<a>.json   what the last build wrote, by name and digest
    build/kept/{source,assignments}/<a>         a folder that held something else as well
"""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from autograder import notebooks, scratch, storage
from autograder.course.assignment import Assignment, AssignmentError, ModuleSpec, load
from autograder.course.course import Course
from autograder.publish import consistency
from autograder.publish.consistency import DIRECTIVE
from autograder.tables import TableError
from ringside import output_folder
from ringside.checking import cell_text
from ringside.course import unit_facts
from ringside.course.predictions import students
from ringside.course.predictions.prompt import GuessError
from ringside.course.term import due_line, due_said, shown

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
RUN_CELL = """\
# `ringside launch {module}.py:{function} --site SITE` leaves run.json here; hand-in takes it
# along. The points are for a whole run of the module that you hand in.
import json
from pathlib import Path

record = json.loads(Path("run.json").read_text()) if Path("run.json").exists() else {{}}
for row in record.get("measurements", []):
    print(f"n = {{row['n']:>9}}: {{row['median_s'] * 1e6:>10.1f}} µs, values {{row['values']}}")"""


class BuildError(AssignmentError):
    """A notebook source that can't be built."""


def build(
    assignment: Assignment, course: Course, say: Callable[[str], None] = lambda text: None
) -> Path:
    """Make the instructor version and the release of `assignment`; returns the release.

    Args:
        say: gets what was kept of the folders that were there.

    Raises:
        AssignmentError: its parts don't fit together, or the notebook's source can't be built.
        StorageError: the folders can't be written.
    """
    name = assignment.name
    consistency.check(assignment, course)
    targets = (course.source(name), course.releases / name)
    other_way = f"Or work in a copy of {course.kit} (`cp -r`)."
    with (
        storage.making(*(target.parent for target in targets), otherwise=other_way),
        scratch.fresh("build-") as folder,
    ):
        for fresh, target in zip(_generate(assignment, course, folder), targets, strict=True):
            _swap(fresh, target.resolve(), course, say)
    return course.releases / name


def stale(assignment: Assignment, course: Course) -> list[str]:
    """The released files that a build would change, add or remove."""
    with scratch.fresh("build-") as folder:
        _, release = _generate(assignment, course, folder)
        fresh = _contents(release)
    present = _contents(course.releases / assignment.name)
    return sorted(
        name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name)
    )


def build_all(
    course: Course,
    names: list[str],
    *,
    check: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, list[str]]:
    """Build (or with `check` only compare) the named assignments; gives the stale files."""
    stale_files: dict[str, list[str]] = {}
    for name in names:
        assignment = load(name, course)
        if check:
            stale_files[name] = stale(assignment, course)
        else:
            build(assignment, course, say)
            stale_files[name] = []
    return stale_files


def _generate(assignment: Assignment, course: Course, folder: Path) -> tuple[Path, Path]:
    from autograder.course.nbgrader_steps import generate_release

    source = folder / "source" / assignment.name
    source.mkdir(parents=True)
    write_source(assignment, course, source)
    release = generate_release(assignment.name, course, folder)
    return source, release


def write_source(assignment: Assignment, course: Course, folder: Path) -> None:
    """Write the instructor version of `assignment` into `folder`.

    What explains the results of its prompts lies beside the notebook, where `reveal` reads it.
    """
    text = (course.solution(assignment.name) / "notebook.py").read_text(encoding="utf-8")
    notebook = instructor_notebook(assignment, text, course.solution(assignment.name))
    try:
        mine, explanations = students.cleared(notebook)
    except GuessError as error:
        raise BuildError(f"{assignment.name}/notebook.py: {error}") from None
    notebooks.write(nbformat.from_dict(mine), folder / assignment.notebook)  # type: ignore[no-untyped-call]
    if explanations:
        students.write(folder / students.NAME, explanations)
    for name in assignment.supplied:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes((course.solution(assignment.name) / name).read_bytes())


def instructor_notebook(assignment: Assignment, text: str, solution: Path) -> NotebookNode:
    """The notebook with its directives expanded, solutions included."""
    expander = _Expander(assignment, solution)
    cells = [
        expander.expand(cell, index)
        for index, cell in enumerate(jupytext.reads(text, fmt="py:percent").cells)
    ]
    _date(cells[0], assignment)
    missing = expander.wanted - expander.seen
    if missing:
        raise BuildError(f"{assignment.name}/notebook.py lacks: {', '.join(sorted(missing))}.")
    notebook = notebooks.notebook(cells)
    notebook.metadata["kernelspec"] = dict(KERNEL)
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata[unit_facts.KEY] = _facts(assignment, solution)
    nbformat.validate(notebook)
    return notebook


def _facts(assignment: Assignment, solution: Path) -> dict[str, Any]:
    """What the map and the first page say of it, for the notebook's metadata."""
    try:
        facts = unit_facts.parse(assignment.unit, assignment.name[1:3])
    except TableError as error:
        raise BuildError(f"{solution / 'assignment.toml'}: {error}") from None
    hours = {module.name: module.hours for module in assignment.modules}
    return facts.in_notebook(hours, [one.name for one in assignment.modules if not one.extra])


def _date(cell: NotebookNode, assignment: Assignment) -> None:
    """Say in the notebook's first cell when it is due, below the title."""
    if assignment.due is not None and cell.cell_type == "markdown":
        title, _, rest = cell.source.partition("\n")
        cell.source = f"{title}\n\n{due_line(assignment.due)}\n{rest}"


def other_date(assignment: Assignment, course: Course) -> str:
    """What to say where the release names another due date than counts now; else nothing."""
    path = course.release(assignment.name) / assignment.notebook
    if not path.is_file():
        return ""
    cells = notebooks.read(path).cells
    old_due = due_said(cells[0].source) if cells else ""
    due = shown(assignment.due) if assignment.due else ""
    if old_due == due:
        return ""
    return (
        f"{path} says that it is due {old_due or 'at no time'}; it is due {due or 'at no time'}. "
        f"`autograder build {assignment.name}` writes the date."
    )


class _Expander:
    """Turns one source cell after the other into a notebook cell."""

    def __init__(self, assignment: Assignment, solution: Path) -> None:
        self.assignment = assignment
        self.solution = solution
        self.seen: set[str] = set()
        self.wanted = {
            *(f"module {module.name}" for module in assignment.modules),
            *(f"check {module.name}" for module in assignment.modules),
            *(f"run {run.name}" for run in assignment.runs),
            *(f"paragraph {paragraph.name}" for paragraph in assignment.paragraphs),
        }

    def expand(self, cell: NotebookNode, index: int) -> NotebookNode:
        match = DIRECTIVE.fullmatch(cell.source.strip()) if cell.cell_type == "code" else None
        if match is None:
            return self._plain(cell, index)
        verb, arguments = match[1], match[2].split()
        if verb == "plan" and not arguments:
            return notebooks.markdown_cell(plan_table(self.assignment), "plan")
        if not arguments or f"{verb} {arguments[0]}" not in self.wanted:
            raise BuildError(f"notebook.py: {cell.source.strip()!r} names nothing of the plan.")
        key = f"{verb} {arguments[0]}"
        if key in self.seen:
            raise BuildError(f"notebook.py: {key!r} stands twice.")
        self.seen.add(key)
        expanded: NotebookNode = getattr(self, f"_{verb}")(arguments[0])
        self._compare_points(cell.source.strip(), arguments[1:], expanded)
        return expanded

    def _plain(self, cell: NotebookNode, index: int) -> NotebookNode:
        make = notebooks.code_cell if cell.cell_type == "code" else notebooks.markdown_cell
        metadata = {
            name: cell.metadata[name]
            for name in ("slideshow", "tags", "known")
            if name in cell.metadata
        }
        return make(cell.source, f"cell-{index:03d}", metadata)

    def _compare_points(self, line: str, words: list[str], cell: NotebookNode) -> None:
        for word in words:
            name, _, value = word.partition("=")
            points = cell.metadata.nbgrader.get("points")
            if name != "points" or points is None or float(value) != points:
                raise BuildError(f"notebook.py: {line!r}: assignment.toml says {points} points.")

    def _module(self, name: str) -> NotebookNode:
        path = self.solution / f"{name}.py"
        if not path.is_file():
            raise BuildError(f"The module {path} is missing.")
        source = path.read_text(encoding="utf-8").rstrip("\n")
        if "### BEGIN SOLUTION" not in source:
            raise BuildError(f"{path} has no '### BEGIN SOLUTION': it would be released whole.")
        begun, ended = (source.count(f"### {word} SOLUTION") for word in ("BEGIN", "END"))
        if begun != ended:
            raise BuildError(
                f"{path}: {begun} '### BEGIN SOLUTION' and {ended} '### END SOLUTION': each needs "
                "the other."
            )
        if lines := outside_functions(source):
            raise BuildError(
                f"{path.name}:{lines[0]}: a solution begins outside of every function. Its stub "
                "would raise when the module is imported, and a student who fills in all others "
                "would earn nothing: begin it inside the first function that needs it."
            )
        return notebooks.code_cell(
            f"{cell_text.first_line(f'{name}.py')}\n{source}",
            f"module-{name}",
            {"nbgrader": _marks(name, solution=True)},
        )

    def _check(self, name: str) -> NotebookNode:
        module = self.assignment.module(name)
        return notebooks.code_cell(
            f'from ringside.checking.public_tests import check\n\ncheck("{name}")',
            f"check-{name}",
            {"nbgrader": _marks(f"check_{name}", points=cell_points(module))},
        )

    def _run(self, name: str) -> NotebookNode:
        (run,) = (spec for spec in self.assignment.runs if spec.name == name)
        return notebooks.code_cell(
            RUN_CELL.format(module=run.module, function=run.function),
            f"run-{name}",
            {"nbgrader": _marks(name, points=run.points)},
        )

    def _paragraph(self, name: str) -> NotebookNode:
        (paragraph,) = (spec for spec in self.assignment.paragraphs if spec.name == name)
        return notebooks.markdown_cell(
            "*Your text here.*",
            f"paragraph-{name}",
            {"nbgrader": _marks(name, points=paragraph.points, solution=True)},
        )


def outside_functions(source: str) -> list[int]:
    """The lines of a module at which a solution begins that no function holds."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        number
        for number, line in enumerate(source.splitlines(), start=1)
        if line.strip() == "### BEGIN SOLUTION"
        and not any(f.lineno < number <= (f.end_lineno or f.lineno) for f in functions)
    ]


def cell_points(module: ModuleSpec) -> float:
    """A check cell's points. Extra modules have none: they are recorded as extra credit."""
    return 0.0 if module.extra else module.weight


def plan_table(assignment: Assignment) -> str:
    """The table in the notebook's head, in markdown."""
    lines = ["| module | what it is | points | hours |", "|---|---|---:|---:|"]
    for module in assignment.modules:
        points = f"+{module.weight:g} (extra)" if module.extra else f"{module.weight:g}"
        lines.append(f"| `{module.filename}` | {module.title} | {points} | {module.hours:g} |")
    for run in assignment.runs:
        lines.append(f"| `run.json` | `{run.module}.py` on the cluster | {run.points:g} | |")
    for paragraph in assignment.paragraphs:
        lines.append(f"| text | {paragraph.title} | {paragraph.points:g} | |")
    return "\n".join([*lines, _total_row(assignment)])


def _total_row(assignment: Assignment) -> str:
    """The total that every page, table and export gives, and what it is made of."""
    texts = len(assignment.paragraphs)
    parts = [f"modules {assignment.module_points:g}"]
    parts += [f"`run.json` {sum(r.points for r in assignment.runs):g}"] if assignment.runs else []
    parts += [f"{'texts' if texts > 1 else 'text'} {assignment.text_points:g}"] if texts else []
    extra = f"; extra up to {assignment.extra_points:g}, on top" if assignment.extra_points else ""
    points = f"**{assignment.max_score:g}**"
    return f"| **total** | {', '.join(parts)}{extra} | {points} | {assignment.hours:g} |"


def _marks(
    grade_id: str, *, points: float | None = None, solution: bool = False
) -> dict[str, object]:
    """nbgrader's metadata: a cell with points is graded, a solution cell is the student's."""
    marks: dict[str, object] = {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": not solution,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    if points is not None:
        marks["points"] = points
    return marks


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _swap(fresh: Path, place: Path, course: Course, say: Callable[[str], None]) -> None:
    """Put `fresh` where `place` is; at any moment either the old or the new one is whole."""
    new = output_folder.contents(fresh)
    keep = None
    if strangers := not_built(place, course, new):
        keep = output_folder.numbered(course.build / "kept" / place.parent.name / place.name)
    with output_folder.beside(place) as incoming:
        shutil.copytree(fresh, incoming, dirs_exist_ok=True)
        output_folder.replace(incoming, place, keep=keep)
    record(place, new, course)
    if keep:
        say(f"{place} held what no build has made ({', '.join(strangers)}): it is in {keep} now.")


def record(place: Path, contents: Mapping[str, str], course: Course) -> None:
    """Remember what a build has written to `place`, so that the next one may replace it."""
    storage.write(_record(place, course), json.dumps(contents, indent=0).encode() + b"\n")


def not_built(place: Path, course: Course, new: Mapping[str, str] | None = None) -> list[str]:
    """The files in `place` that the last build here did not write, and the `new` one will not."""
    try:
        last = json.loads(_record(place, course).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = {}
    there = output_folder.contents(place) if place.is_dir() else {}
    digests = new or {}
    return [n for n, digest in there.items() if digest not in (last.get(n), digests.get(n))]


def _record(place: Path, course: Course) -> Path:
    return course.build / "built" / place.parent.name / f"{place.name}.json"
