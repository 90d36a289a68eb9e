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

    [[measured]]                          # timed on real ranks by `grade --measured`
    module = "ring"
    function = "all_reduce"
    file = "ring.py"                      # where the function stands; the module's own file
    ranks = 4                             # a core each
    n = 1_000_000                         # length, as after `ringside run ... --`
    dtype = "float64"
    options = {}                          # the other words that may stand there
    bands = [[1.15, 1.0], [1.5, 0.5]]     # student's time over the reference's, at most -> credit
    points = 0                            # of a perfect credit; never part of the score
    pairs = 16                            # even; each times both once
    noise = 1.5                           # the reference against itself: high over low, at most

    [[paragraph]]                         # graded by hand
    name = "cluster_report"
    title = "Predicted and measured"
    points = 5

    [limits]                              # what differs from autograder/limits.toml
    memory_mib = 2048
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import limits
from autograder.course import Course
from autograder.limits import Limits

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
class Band:
    """What a ratio of times (student's over the reference's) of at most ``ratio`` earns."""

    ratio: float
    credit: float  # 0 to 1


BANDS = (Band(1.15, 1.0), Band(1.5, 0.5))  # where an assignment says nothing


@dataclass(frozen=True)
class MeasuredSpec:
    """One function whose time on real ranks is compared with the reference's."""

    module: str
    function: str
    file: str
    ranks: int
    n: int
    dtype: str = "float64"
    options: Mapping[str, Any] = field(default_factory=dict)
    bands: tuple[Band, ...] = BANDS
    points: float = 0.0
    pairs: int = 16
    noise: float = 1.5


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
    measured: tuple[MeasuredSpec, ...]
    paragraphs: tuple[ParagraphSpec, ...]
    supplied: tuple[str, ...]
    public_tests: str | None
    due: datetime.datetime | None
    limits: Limits = field(default_factory=Limits)

    @property
    def notebook(self) -> str:
        return f"{self.name}.ipynb"

    @property
    def due_utc(self) -> datetime.datetime | None:
        """When it is due, as nbgrader keeps it: naive UTC."""
        return self.due and self.due.astimezone(datetime.UTC).replace(tzinfo=None)

    @property
    def max_score(self) -> float:
        """The assignment's total: core modules, runs and texts. Extra credit comes on top."""
        return self.machine_points + self.text_points

    @property
    def module_points(self) -> float:
        """The core modules' weights."""
        return sum(module.weight for module in self.modules if not module.extra)

    @property
    def extra_points(self) -> float:
        """What extra modules add, at most."""
        return sum(module.weight for module in self.modules if module.extra)

    @property
    def machine_points(self) -> float:
        """What is graded without a person: core modules and runs."""
        return self.module_points + sum(run.points for run in self.runs)

    @property
    def text_points(self) -> float:
        """What a person gives."""
        return sum(paragraph.points for paragraph in self.paragraphs)

    def module(self, name: str) -> ModuleSpec:
        for module in self.modules:
            if module.name == name:
                return module
        raise AssignmentError(f"{self.name} has no module {name!r}.")


def load(name: str, course: Course | None = None) -> Assignment:
    """Read the plan of assignment `name`.

    Raises:
        AssignmentError: there is no such assignment, or its file is wrong.
        LimitsError: a limit in its file, or in the course's, is none.
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
        plan = _parse(name, tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise AssignmentError(f"{path}: {type(error).__name__}: {error}") from error
    return dataclasses.replace(plan, limits=limits.load(name, course))


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
    measured = tuple(measured_spec(each) for each in table.get("measured", []))
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
    for spec in measured:
        if spec.module not in {module.name for module in modules}:
            raise ValueError(f"measured: {spec.module!r} is no module")
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
        measured=measured,
        paragraphs=paragraphs,
        supplied=supplied,
        public_tests=None if public_tests is None else str(public_tests),
        due=due,
    )


def measured_spec(table: dict[str, Any]) -> MeasuredSpec:
    """One entry of ``[[measured]]``.

    Raises:
        KeyError, TypeError, ValueError: something is missing, or wrong.
    """
    known = {field.name for field in dataclasses.fields(MeasuredSpec)}
    if strangers := sorted(set(table) - known):
        raise ValueError(f"measured: {strangers[0]!r} is not known; {', '.join(sorted(known))} are")
    bands: tuple[Band, ...] = BANDS
    if "bands" in table:
        bands = tuple(Band(float(ratio), float(share)) for ratio, share in table["bands"])
    spec = MeasuredSpec(
        module=str(table["module"]),
        function=str(table["function"]),
        file=str(table.get("file", f"{table['module']}.py")),
        ranks=int(table["ranks"]),
        n=int(table["n"]),
        dtype=str(table.get("dtype", "float64")),
        options=dict(table.get("options", {})),
        bands=bands,
        points=float(table.get("points", 0)),
        pairs=int(table.get("pairs", MeasuredSpec.pairs)),
        noise=float(table.get("noise", MeasuredSpec.noise)),
    )
    where = f"measured {spec.module!r}"
    if not NAME.fullmatch(spec.function) or not re.fullmatch(r"\w+\.py", spec.file):
        raise ValueError(f"{where}: {spec.file}:{spec.function} is no function's name")
    if spec.ranks < 2 or spec.pairs < 6 or spec.pairs % 2:
        raise ValueError(f"{where}: at least 2 ranks, and an even number of at least 6 pairs")
    if any(not 0 <= band.credit <= 1 for band in bands):
        raise ValueError(f"{where}: a band's credit lies between 0 and 1")
    return spec
