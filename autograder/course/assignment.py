"""What an assignment asks for: its modules, their weights, its cluster run and paragraphs.

``solutions/<assignment>/assignment.toml``::

    title = "All-reduce, five ways"
    handed_out = true                     # students get it where no course's [released] says so
    due = 2026-03-01T23:59:00Z            # optional; a course's own date goes first (`dates`)

    [unit]                                # what the map, the first page and calendars say
    name = "all-reduce"                   # in its box on the map
    after = ["01"]                        # the units that it builds upon
    can = "add up gradients in five ways" # after "After this course you can"
    column = 0                            # of the box, 0 to 3

    [container]                           # what the reference takes on a platform, as measured
    memory_mb = 1248                      # of all processes
    cpu_s = 61

    [[module]]
    name = "ring"                         # ring.py, and the grade_id of its cell
    title = "A ring, in two halves"
    weight = 35                           # points of the assignment; the suite gives up to 100
    hours = 2.0                           # estimated
    extra = false                         # true: on top of the maximum, if no path says otherwise

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

    [limits]                              # what differs from autograder/course/limits.toml
    memory_mib = 2048
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder import tables
from autograder.course import limits
from autograder.course import settings as course_settings
from autograder.course.course import Course
from autograder.course.limits import Limits
from autograder.tables import NUMBER, TableError

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
CHECKS = "checks"  # the folder of cases and tests
_TOP: tables.Kinds = {
    "title": str, "handed_out": bool, "due": datetime.datetime, "unit": dict, "container": dict,
    "module": list, "run": list, "measured": list, "paragraph": list, "limits": dict,
}  # fmt: skip
_EARLIER = {
    "supplied": "what lies in given/ is given to students; nothing lists it.",
    "public_tests": "tests are in checks/test_MODULE.py; CONTRIBUTING.md shows their form.",
}
_CONTAINER: tables.Kinds = {"memory_mb": int, "cpu_s": NUMBER}
_LISTS: dict[str, tuple[tables.Kinds, tuple[str, ...]]] = {
    "module": (
        {"name": str, "title": str, "weight": NUMBER, "hours": NUMBER, "extra": bool},
        ("name", "weight"),
    ),
    "run": (
        {"name": str, "module": str, "function": str, "points": NUMBER},
        ("name", "module", "points"),
    ),
    "paragraph": ({"name": str, "title": str, "points": NUMBER}, ("name", "points")),
    "measured": (
        {
            "module": str, "function": str, "file": str, "ranks": int, "n": int, "dtype": str,
            "options": dict, "bands": list, "points": NUMBER, "pairs": int, "noise": NUMBER,
        },
        ("module", "function", "ranks", "n"),
    ),
}  # fmt: skip


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
class Need:
    """What the reference takes in a container without namespaces, one module after another."""

    memory_mb: int  # of all processes, the grader's too
    cpu_s: float


@dataclass(frozen=True)
class Assignment:
    """The plan of an assignment; every file name that grading uses comes from here."""

    name: str
    title: str
    modules: tuple[ModuleSpec, ...]
    runs: tuple[RunSpec, ...]
    measured: tuple[MeasuredSpec, ...]
    paragraphs: tuple[ParagraphSpec, ...]
    supplied: tuple[str, ...]  # what lies beside the notebook: the files of given/ and checks/
    due: datetime.datetime | None
    limits: Limits = field(default_factory=Limits)
    unit: Mapping[str, Any] = field(default_factory=dict)  # which the build reads
    container: Need | None = None  # None: nobody has measured it

    @property
    def notebook(self) -> str:
        return f"{self.name}.ipynb"

    @property
    def in_ranks(self) -> tuple[str, ...]:
        """The supplied files that ranks need: no tests, and no cases."""
        return tuple(
            name
            for name in self.supplied
            if not name.startswith(f"{CHECKS}/")
            or Path(name).name.startswith(("__init__", "inside"))
        )

    @property
    def has_tests(self) -> bool:
        """Whether there is something for students to check their modules by."""
        return any(name.startswith(f"{CHECKS}/test_") for name in self.supplied)

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

    def is_extra(self, part: str) -> bool:
        """Whether a part is a module on top of the assignment's maximum."""
        return any(module.name == part and module.extra for module in self.modules)

    @property
    def extra_points(self) -> float:
        """What extra modules add, at most."""
        return sum(module.weight for module in self.modules if module.extra)

    @property
    def machine_points(self) -> float:
        """What is graded without a person: core modules and runs."""
        return self.module_points + sum(run.points for run in self.runs)

    @property
    def hours(self) -> float:
        """The core modules' hours, as estimated."""
        return sum(module.hours for module in self.modules if not module.extra)

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
        table = tables.read(path)
        term = course_settings.term(course, tuple(known(course)))
    except TableError as error:
        raise AssignmentError(str(error)) from None
    try:
        _check(table)
        plan = _parse(name, table, given_files(path.parent))
    except TableError as error:
        stray = re.search(r"(\w+) = ", str(error))
        line = tables.line_of(path, stray[1]) if stray else ""
        raise AssignmentError(f"{path}{line}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise AssignmentError(f"{path}: {type(error).__name__}: {error}") from error
    modules = plan.modules
    if term.course_path is not None:
        # The path's modules make up the total; the others are on top of it.
        written = term.course_path.work.get(name, ())
        modules = tuple(dataclasses.replace(one, extra=one.name not in written) for one in modules)
    due = term.due.get(name, plan.due)
    return dataclasses.replace(plan, modules=modules, due=due, limits=limits.load(name, course))


def known(course: Course | None = None) -> list[str]:
    """The names of all assignments, in order."""
    folder = (course or Course.here()).kit / "solutions"
    return sorted(path.parent.name for path in folder.glob("*/assignment.toml"))


def _check(table: Mapping[str, Any]) -> None:
    """Compare all tables of the file with what they may hold."""
    for key, cure in _EARLIER.items():
        if key in table:
            raise TableError(f"{key} = {table[key]!r} is of an earlier form: {cure}")
    tables.check(table, _TOP, needs=("module",))
    for kind, (kinds, needs) in _LISTS.items():
        for entry in table.get(kind, []):
            if not isinstance(entry, dict):
                raise TableError(f"{kind} = {entry!r}: tables [[{kind}]] are wanted.")
            if kind != "measured":  # which is looked at as it is read
                name = entry.get("name", "")
                tables.check(entry, kinds, f"[[{kind}]] {name!r}", needs=needs, above=_TOP)
    tables.check(table.get("container", {}), _CONTAINER, "[container]", above=_TOP)
    of_limits = table.get("limits", {})
    misplaced = {key: value for key, value in of_limits.items() if key in _TOP}
    tables.check(misplaced, {}, "[limits]", above=_TOP)


def given_files(unit: Path) -> tuple[str, ...]:
    """What students get beside the modules: the files of `given/` and `checks/`."""
    paths = [path for folder in ("given", "checks") for path in (unit / folder).glob("*.*")]
    return tuple(sorted(path.relative_to(unit).as_posix() for path in paths))


def _parse(name: str, table: dict[str, Any], given: tuple[str, ...]) -> Assignment:
    modules = tuple(
        ModuleSpec(
            name=str(entry["name"]),
            title=str(entry.get("title", entry["name"])),
            weight=float(entry["weight"]),
            hours=float(entry.get("hours", 0)),
            extra=bool(entry.get("extra", False)),
        )
        for entry in table["module"]
    )
    runs = tuple(
        RunSpec(
            str(entry["name"]),
            str(entry["module"]),
            float(entry["points"]),
            str(entry.get("function", "all_reduce")),
        )
        for entry in table.get("run", [])
    )
    measured = tuple(measured_spec(entry) for entry in table.get("measured", []))
    paragraphs = tuple(
        ParagraphSpec(
            str(entry["name"]), str(entry.get("title", entry["name"])), float(entry["points"])
        )
        for entry in table.get("paragraph", [])
    )
    names = [module.name for module in modules]
    names += [run.name for run in runs] + [paragraph.name for paragraph in paragraphs]
    for entry in names:
        if not NAME.fullmatch(entry) or names.count(entry) > 1:
            raise ValueError(f"{entry!r} is not a name, or it is used twice")
    for run in runs:
        if not NAME.fullmatch(run.function):
            raise ValueError(f"run {run.name!r}: {run.function!r} is no function's name")
        if run.module not in {module.name for module in modules}:
            raise ValueError(f"run {run.name!r} is of {run.module!r}, which is no module")
    for spec in measured:
        if spec.module not in {module.name for module in modules}:
            raise ValueError(f"measured: {spec.module!r} is no module")
    due = table.get("due")
    container = table.get("container")
    return Assignment(
        name=name,
        title=str(table.get("title", name)),
        modules=modules,
        runs=runs,
        measured=measured,
        paragraphs=paragraphs,
        supplied=given,
        due=None if due is None else tables.moment(due),
        unit=table.get("unit", {}),
        container=Need(**container) if container else None,
    )


def measured_spec(table: dict[str, Any]) -> MeasuredSpec:
    """One entry of ``[[measured]]``.

    Raises:
        TableError, TypeError, ValueError: something is missing, or wrong.
    """
    kinds, needs = _LISTS["measured"]
    tables.check(table, kinds, f"[[measured]] {table.get('module', '')!r}", needs=needs, above=_TOP)
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
    if not NAME.fullmatch(spec.function) or not re.fullmatch(rf"({CHECKS}/)?\w+\.py", spec.file):
        raise ValueError(f"{where}: {spec.file}:{spec.function} is no function's name")
    if spec.ranks < 2 or spec.pairs < 6 or spec.pairs % 2:
        raise ValueError(f"{where}: at least 2 ranks, and an even number of at least 6 pairs")
    if any(not 0 <= band.credit <= 1 for band in bands):
        raise ValueError(f"{where}: a band's credit lies between 0 and 1")
    return spec
