"""What an assignment asks for: its modules, their weights, its cluster run and paragraphs.

``solutions/<assignment>/assignment.toml``::

    title = "All-reduce, five ways"
    supplied = ["shards.py"]              # copied beside the notebook as they are
    public_tests = "test_public.py"
    due = 2026-03-01T23:59:00Z            # optional; the gradebook's own date goes first

    [[module]]
    name = "ring"                         # ring.py, and the grade_id of its cell
    title = "A ring, in two halves"
    weight = 35                           # points of the assignment; the suite gives up to 100
    hours = 2.0                           # estimated
    extra = false                         # true: on top of the assignment's maximum

    [[run]]                               # a job on the cluster: run.json, graded automatically
    name = "ring_cluster"
    module = "ring"
    function = "all_reduce"               # what is launched; all_reduce where nothing is said
    points = 5

    [[paragraph]]                         # graded by hand
    name = "cluster_report"
    title = "Predicted and measured"
    points = 5
"""

from __future__ import annotations

import datetime
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.course import Course

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
SUITE_POINTS = 100.0  # every module's tests add up to this


class AssignmentError(ValueError):
    """An assignment that is not there, or whose description is wrong."""


@dataclass(frozen=True)
class ModuleSpec:
    """One module that a student writes."""

    name: str
    title: str
    weight: float
    hours: float
    extra: bool

    @property
    def filename(self) -> str:
        return f"{self.name}.py"


@dataclass(frozen=True)
class RunSpec:
    """One job that a student launches on a cluster and hands in."""

    name: str
    module: str
    points: float
    function: str = "all_reduce"


@dataclass(frozen=True)
class ParagraphSpec:
    """One text that a person grades."""

    name: str
    title: str
    points: float


@dataclass(frozen=True)
class Assignment:
    """The plan of an assignment; every file name that grading uses comes from here."""

    name: str
    title: str
    modules: tuple[ModuleSpec, ...]
    runs: tuple[RunSpec, ...]
    paragraphs: tuple[ParagraphSpec, ...]
    supplied: tuple[str, ...]
    public_tests: str | None
    due: datetime.datetime | None

    @property
    def notebook(self) -> str:
        return f"{self.name}.ipynb"

    @property
    def max_score(self) -> float:
        """The core modules' weights: what `autograder grade` scores against."""
        return sum(module.weight for module in self.modules if not module.extra)

    def module(self, name: str) -> ModuleSpec:
        for module in self.modules:
            if module.name == name:
                return module
        raise AssignmentError(f"{self.name} has no module {name!r}.")


def load(name: str, course: Course | None = None) -> Assignment:
    """Read the plan of assignment `name`.

    Raises:
        AssignmentError: there is no such assignment, or its file is wrong.
    """
    course = course or Course.here()
    if not NAME.fullmatch(name):
        raise AssignmentError(f"{name!r} is not an assignment's name (like a03_allreduce).")
    path = course.solution(name) / "assignment.toml"
    if not path.is_file():
        raise AssignmentError(
            f"There is no assignment {name!r}: {path} is missing. "
            f"Known: {', '.join(known(course)) or 'none'}."
        )
    try:
        return _parse(name, tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise AssignmentError(f"{path}: {type(error).__name__}: {error}") from error


def known(course: Course | None = None) -> list[str]:
    """The names of all assignments, in order."""
    folder = (course or Course.here()).kit / "solutions"
    return sorted(path.parent.name for path in folder.glob("*/assignment.toml"))


def _parse(name: str, table: dict[str, Any]) -> Assignment:
    modules = tuple(
        ModuleSpec(
            name=str(each["name"]),
            title=str(each.get("title", each["name"])),
            weight=float(each["weight"]),
            hours=float(each.get("hours", 0)),
            extra=bool(each.get("extra", False)),
        )
        for each in table["module"]
    )
    runs = tuple(
        RunSpec(
            str(each["name"]),
            str(each["module"]),
            float(each["points"]),
            str(each.get("function", "all_reduce")),
        )
        for each in table.get("run", [])
    )
    paragraphs = tuple(
        ParagraphSpec(
            str(each["name"]), str(each.get("title", each["name"])), float(each["points"])
        )
        for each in table.get("paragraph", [])
    )
    names = [module.name for module in modules]
    names += [run.name for run in runs] + [paragraph.name for paragraph in paragraphs]
    for each in names:
        if not NAME.fullmatch(each) or names.count(each) > 1:
            raise ValueError(f"{each!r} is not a name, or it is used twice")
    for run in runs:
        if not NAME.fullmatch(run.function):
            raise ValueError(f"run {run.name!r}: {run.function!r} is no function's name")
        if run.module not in {module.name for module in modules}:
            raise ValueError(f"run {run.name!r} is of {run.module!r}, which is no module")
    supplied = tuple(str(each) for each in table.get("supplied", []))
    public_tests = table.get("public_tests")
    for each in supplied if public_tests is None else (*supplied, public_tests):
        if Path(each).name != each:
            raise ValueError(f"{each!r} must be a file name without folders")
    due = table.get("due")
    if due is not None and not isinstance(due, datetime.datetime):
        raise TypeError("due must be a date with a time")
    if due is not None and due.tzinfo is None:
        due = due.replace(tzinfo=datetime.UTC)
    return Assignment(
        name=name,
        title=str(table.get("title", name)),
        modules=modules,
        runs=runs,
        paragraphs=paragraphs,
        supplied=supplied,
        public_tests=None if public_tests is None else str(public_tests),
        due=due,
    )
