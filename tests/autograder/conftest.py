"""A toy course: two modules, a run, a paragraph, and a grader that knows the answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from autograder.course import assignment as plans
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import pipeline
from autograder.grade.pipeline import Sources
from autograder.grade.suite.result import ModuleResult, TestResult
from autograder.gradebook.nbgrader.release import register
from autograder.publish import build

KIT = Path(__file__).resolve().parents[2]
NAME = "a99_toy"
PLAN = """
title = "A toy"
due = 2030-01-01T12:00:00Z
[[module]]
name = "one"
title = "The first"
weight = 30
hours = 1
[[module]]
name = "two"
title = "The second"
weight = 60
[[module]]
name = "more"
title = "On top"
weight = 20
extra = true
[[run]]
name = "one_cluster"
module = "one"
points = 5
[[paragraph]]
name = "words"
title = "In your words"
points = 5
"""
NOTEBOOK = """# %% [markdown]
# # A toy
# %%
# {{plan}}
# %%
# {{module one}}
# %%
# {{check one}}
# %%
print("predict")
# %%
# {{module two}}
# %%
# {{check two points=60}}
# %%
# {{module more}}
# %%
# {{check more}}
# %%
# {{run one_cluster points=5}}
# %% [markdown]
# Say what you saw.
# %%
# {{paragraph words points=5}}
"""
MODULE = '''"""Module {name}."""


def answer():
    """Give the answer of {name}."""
    ### BEGIN SOLUTION
    return "{name} is solved"
    ### END SOLUTION
'''


def toy_grader(assignment: str, sources: Sources, module: str) -> ModuleResult:
    """Full marks for the solution, half for the word `half`, an exception for `crash`."""
    text = sources.get(module, "")
    if "crash the grader" in text:
        raise RuntimeError("the toy grader crashed")
    solved = f"{module} is solved" in text
    values = 60.0 if solved else 30.0 if "half" in text else 0.0
    right = TestResult("the answer is right", "values", 60.0, values, seconds=0.1)
    fast = TestResult("the answer is fast", "speed", 40.0, 40.0 * solved, seconds=0.2)
    if not solved:
        right.message = "says <script>alert(1)</script>"
        right.detail = f"ValueError: <b>\n  {module}.py:2 in answer"
        right.reproduce = f"ringside run {module}.py:answer --ranks 3"
        fast.message = "Not fast."
    bytes_sent = {
        "case": "answer on 2 ranks",
        "sent_bytes": [10, 13],
        "allowed": {"sent_bytes": [12, 12]},
    }
    return ModuleResult(
        module,
        [right, fast],
        counts=[bytes_sent],
        timeline_svg='<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9">'
        '<rect width="9" height="9" onclick="x()"/><script>x()</script></svg>',
        sandbox="a toy",
    )


@pytest.fixture(scope="session")
def toy_kit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy's solutions, built once."""
    kit = tmp_path_factory.mktemp("kit")
    folder = kit / "solutions" / NAME
    (folder / "given").mkdir(parents=True)
    (folder / "assignment.toml").write_text(PLAN)
    (folder / "notebook.py").write_text(NOTEBOOK)
    (folder / "given" / "numbers.py").write_text("GIVEN = 1\n")
    for name in ("one", "two", "more"):
        (folder / f"{name}.py").write_text(MODULE.format(name=name))
    shutil.copy(KIT / "nbgrader_config.py", kit)
    course = Course(kit=kit, root=kit)
    build.build(plans.load(NAME, course), course)
    return kit


@pytest.fixture
def course(toy_kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A fresh course on the toy kit, with the toy grader and a store of its own."""
    monkeypatch.setenv("RINGSIDE_KIT", str(toy_kit))
    monkeypatch.setenv("RINGSIDE_COURSE", str(tmp_path / "course"))
    monkeypatch.setattr(Course, "results", property(lambda self: self.build / "results"))
    monkeypatch.setattr(pipeline, "suite_grader", lambda course, **_: toy_grader)
    monkeypatch.setattr(pipeline, "PAUSES_S", (0.0, 0.0))
    (tmp_path / "course").mkdir()
    return Course.here()


@pytest.fixture(scope="session")
def registered_build(toy_kit: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of a course whose gradebook knows the toy; made once."""
    kit = Course(kit=toy_kit, root=toy_kit)
    fresh = Course(kit=toy_kit, root=tmp_path_factory.mktemp("registered"))
    shutil.copytree(kit.source(NAME), fresh.source(NAME))
    register(plans.load(NAME, fresh), fresh, tmp_path_factory.mktemp("scratch"))
    return fresh.build


@pytest.fixture
def registered(course: Course, registered_build: Path) -> Course:
    """A course whose gradebook knows the assignment."""
    shutil.copytree(registered_build, course.build)
    return course


@pytest.fixture
def plan(course: Course) -> Assignment:
    return plans.load(NAME, course)


Writer = Callable[..., Path]


@pytest.fixture
def notebook(plan: Assignment, course: Course) -> Callable[..., nbformat.NotebookNode]:
    """The released notebook with some cells filled in: `notebook(one="source", ...)`."""

    def fill(**cells: str) -> nbformat.NotebookNode:
        nb = nbformat.read(course.release(plan.name) / plan.notebook, as_version=4)
        for cell in nb.cells:
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if grade_id in cells:
                cell.source = cells[grade_id]
        return nb

    return fill


@pytest.fixture
def hand_in(plan: Assignment, course: Course) -> Writer:
    """Put a notebook (or raw bytes) into nbgrader's submitted tree."""

    def write(student: str, content: nbformat.NotebookNode | bytes, **files: str) -> Path:
        folder = course.submitted(student, plan.name)
        folder.mkdir(parents=True, exist_ok=True)
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / plan.notebook).write_bytes(raw)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder

    return write


def solved(name: str) -> str:
    """A solution cell, filled in rightly."""
    return f"%%module {name}.py\n" + MODULE.format(name=name)
