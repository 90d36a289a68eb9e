"""The thirteen of the demo: what each one hands in, and what that shows.

Modules come from the reference (``reference``), from ``wrong/`` (the name of a wrong
one, ``ring__whole_vectors``) or from ``demo/modules`` (``attack``).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.collect.rebuild import solution_cells
from autograder.course import edits
from autograder.course.course import Course
from autograder.notebooks import marks
from ringside.checking import cell_text

ASSIGNMENT = "a03_allreduce"
CORE = ("star", "sharded_server", "ring", "recursive", "cost", "ring_torch")
HERE = Path(__file__).parent
Tamper = Callable[[NotebookNode], NotebookNode | bytes]
PARAGRAPH = (
    "On two nodes the ring took 1.9 times what the model predicts for 1000 elements, and 1.1 "
    "times for a million: latency between the nodes is larger than alpha says, and the "
    "bandwidth is right."
)


@dataclass(frozen=True)
class Student:
    """One member of the class."""

    name: str
    family: str
    shows: str
    modules: dict[str, str] = field(default_factory=dict)  # module -> where its source is from
    paragraph: str = ""
    tamper: Tamper | None = None
    late_hours: float = 0.0
    ran_on_cluster: bool = False
    timestamp: str = ""  # what stands in a timestamp.txt of the student's own
    link: str = ""  # the name of a symbolic link to the gradebook


def source(course: Course, module: str, origin: str) -> str:
    """A module's text, without the markers of the instructor's version."""
    if "__" in origin:
        return edits.one(course.solution(ASSIGNMENT), origin).source
    if origin == "reference":
        path = course.solution(ASSIGNMENT) / f"{module}.py"
    else:
        (path,) = (HERE / "modules").glob(f"{origin}.*")
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith("### "))


def hand_in(student: Student, release: NotebookNode, course: Course) -> bytes:
    """The notebook file that `student` hands in."""
    notebook = copy.deepcopy(release)
    for cell in solution_cells(notebook):
        name = marks(cell)["grade_id"]
        if name in student.modules:
            text = source(course, name, student.modules[name])
            cell.source = f"{cell_text.first_line(f'{name}.py')}\n{text}"
        elif cell.cell_type == "markdown" and student.paragraph:
            cell.source = student.paragraph
    content = student.tamper(notebook) if student.tamper else notebook
    return content if isinstance(content, bytes) else json.dumps(content, indent=1).encode()


def cut_off(notebook: NotebookNode) -> bytes:
    """A file whose upload broke off."""
    text = json.dumps(notebook, indent=1).encode()
    return text[: len(text) // 2]


def lose_and_copy_cells(notebook: NotebookNode) -> NotebookNode:
    """Delete one check cell, copy another, and copy a solution before finishing the copy."""
    by_id = {marks(cell).get("grade_id"): cell for cell in notebook.cells}
    draft = copy.deepcopy(by_id["ring"])
    draft.source = "%%module ring.py\n# first try, see below\n"
    notebook.cells = [cell for cell in notebook.cells if cell is not by_id["check_star"]]
    notebook.cells.insert(notebook.cells.index(by_id["ring"]), draft)
    notebook.cells.append(copy.deepcopy(by_id["check_ring"]))
    return notebook


def forge(notebook: NotebookNode) -> NotebookNode:
    """Change points, flags and outputs, in the hope that somebody reads them."""
    for cell in notebook.cells:
        if marks(cell).get("grade") and cell.cell_type == "code":
            cell.metadata["nbgrader"]["points"] = 1000
            cell.source = "1000"
            output = new_output("execute_result", {"text/plain": "1000"}, execution_count=1)  # type: ignore[no-untyped-call]
            cell.outputs = [output]
        if marks(cell).get("grade_id") == "ring":
            cell.metadata["nbgrader"] |= {"locked": True, "solution": False, "schema_version": 99}
            cell.source = cell.source.replace("ring.py", "../../autograder/suite/plugin.py", 1)
    notebook.metadata["kernelspec"] = {"name": "bash", "display_name": "bash", "language": "bash"}
    return notebook


REFERENCE = dict.fromkeys(CORE, "reference")

STUDENTS = (
    Student(
        "ada",
        "Adeyemi",
        "everything right, the extra modules too",
        {**REFERENCE, "tree": "reference", "hierarchical": "reference"},
        PARAGRAPH,
        ran_on_cluster=True,
    ),
    Student(
        "bela", "Bartha", "the core right, no extra, no cluster run", dict(REFERENCE), PARAGRAPH
    ),
    Student("chen", "Chen", "three modules of six", dict.fromkeys(CORE[:3], "reference")),
    Student(
        "dora",
        "Diaz",
        "right values, too many bytes",
        {
            "star": "reference",
            "sharded_server": "sharded_server__whole_vectors",
            "ring": "ring__whole_vectors",
            "recursive": "recursive__powers_of_two_only",
            "cost": "cost__fixed_threshold",
        },
        "It was about as expected.",
    ),
    Student(
        "emil",
        "Eriksen",
        "a ring that hangs once messages are large",
        {"star": "reference", "ring": "ring__send_cycle", "cost": "reference"},
    ),
    Student("fay", "Farouk", "untouched"),
    Student(
        "gus",
        "Gruber",
        "an attack in code, cells, text and files",
        {"ring": "attack", "star": "attack", "cost": "cost__always_the_ring"},
        "<script>alert('gus')</script> [grade](javascript:alert(1)) $\\href{javascript:x}{y}$",
        tamper=forge,
        timestamp="the day before yesterday",
        link="my_gradebook.db",
    ),
    Student("hana", "Horvat", "a file that broke off", dict(REFERENCE), tamper=cut_off),
    Student(
        "ivo",
        "Ivanov",
        "check cells deleted and duplicated",
        dict(REFERENCE),
        PARAGRAPH,
        tamper=lose_and_copy_cells,
    ),
    Student(
        "jun", "Jung", "right, more than 3 days late", dict(REFERENCE), PARAGRAPH, late_hours=78.0
    ),
    Student(
        "kim",
        "Kovacs",
        "2 h late, with a time of its own",
        {"star": "reference", "ring": "reference"},
        late_hours=2.0,
        timestamp="2020-01-01 00:00:00 UTC",
    ),
    Student(
        "lea",
        "Lindqvist",
        "a syntax error, a length that does not divide",
        {
            "star": "unfinished_star",
            "sharded_server": "unfinished_server",
            "ring": "ring__star_posing",
        },
    ),
    Student(
        "max",
        "Moreau",
        "the library's collectives in place of one's own",
        {
            "star": "star__library_reduce",
            "ring": "ring__library_all_reduce",
            "tree": "tree__chains",
        },
    ),
)
