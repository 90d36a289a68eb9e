"""Run the public tests that lie beside the modules, and say what they earned: `ringside check`."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.checking import notebook, saved_progress
from ringside.checking.cases import CHECKS
from ringside.checking.pytest_process import follow, sentence
from ringside.checking.reasons import by_reason, reason
from ringside.checking.requirements import Requirement, Requirements, earned_by, held_back, score
from ringside.checking.shares import RIGHT_BESIDE
from ringside.errors import RingsideError
from ringside.files import write_atomically
from ringside.torch_there import need_torch
from ringside.units import format_count

TIMELINES = ".ringside"
# What a test says that is not begun, since a call before it did not end.
NOT_BEGUN = "not run: an earlier call"
CALL_TIMEOUT_S = 20.0  # of one call on all ranks, on the wall; a grader counts CPU time instead
_NO_TESTS = 5  # pytest's exit status where nothing was collected
_NO_MODULE = re.compile(r"E   ModuleNotFoundError: No module named '([\w.]+)'")


class CheckError(RingsideError):
    """The public tests could not be run."""


@dataclass
class TestRecord:
    """One test's points; ``message`` is what a student reads."""

    __test__ = False  # for pytest, which looks for classes named Test...

    name: str
    module: str
    kind: str
    requirement: str
    points: float
    earned: float = 0.0
    message: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    skipped: bool = False  # not run on this machine; its points don't count

    @property
    def is_full(self) -> bool:
        return self.earned >= self.points


@dataclass(frozen=True)
class ModuleReport:
    """What one module's public tests earned."""

    name: str
    tests: list[TestRecord]
    requirements: Requirements
    timeline: Path | None = None
    timeline_of: str = ""  # the failed test of order or time whose run it shows

    @property
    def earned(self) -> float:
        return score(self.requirements, self.tests)

    @property
    def points(self) -> float:
        return round(sum(test.points for test in self.tests), 4)

    @property
    def passed(self) -> bool:
        return all(test.is_full for test in self.tests)

    @property
    def held_back(self) -> str:
        """A sentence where not all that it earned counts."""
        return held_back(self.requirements, self.tests)


@dataclass(frozen=True)
class Report:
    """What all modules' public tests earned."""

    folder: Path
    modules: list[ModuleReport]
    counts: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    not_written: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(module.passed for module in self.modules)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        modules = {
            module.name: {
                "earned": module.earned,
                "points": module.points,
                "tests": [asdict(test) for test in module.tests],
                "timeline": str(module.timeline) if module.timeline else None,
            }
            for module in self.modules
        }
        return {
            "modules": modules,
            "counts": self.counts,
            "not_written": self.not_written,
            "seconds": round(self.seconds, 3),
        }


def run(
    folder: Path,
    modules: Sequence[str] = (),
    test: str = "",
    *,
    case: str = "",
    timeout_s: float = CALL_TIMEOUT_S,
) -> Report:
    """Run the public tests of a folder in a fresh process; a terminal shows how far they are.

    Args:
        folder: holds ``checks/`` and the modules.
        modules: names such as ``ring`` or ``ring.py``; empty: all that are there.
        test: only the test of this name, with or without its ``test_``.
        case: only this one, of the tests that take it; as a failure's line names it.
        timeout_s: real seconds that one call on all ranks may take; the rest of the tests of a
            module with a call that takes longer is not run.

    Raises:
        CheckError: no tests in the folder, an unknown module, or tests that can't be run.
        Interrupted: the reader stopped them.
    """
    tests = find(folder)
    names = [name.removesuffix(".py") for name in modules]
    missing = [name for name in names if not (folder / f"{name}.py").is_file()]
    if missing:
        alike = difflib.get_close_matches(missing[0], [path.stem for path in folder.glob("*.py")])
        meant = f" Did you mean {alike[0]}?" if alike else ""
        raise CheckError(
            f"there is no {missing[0]}.py here: run its %%module cell, or write the file.{meant}"
        )
    started = time.monotonic()
    record = _record(folder, names, test, case, timeout_s)
    reports: list[ModuleReport] = []
    not_written: list[str] = []
    tests_run = [TestRecord(**test) for test in record["tests"]]
    for name in dict.fromkeys(test.module for test in tests_run):
        mine = [test for test in tests_run if test.module == name]
        asked = Requirements.from_json(record["requirements"][name])
        if not (folder / f"{name}.py").is_file():
            not_written.append(name)
            continue
        reports.append(
            ModuleReport(
                name,
                mine,
                asked,
                _leave_timeline(folder, name, record),
                record["timelines_of"].get(name, ""),
            )
        )
    if test and not record["tests"] and not names:
        raise CheckError(f"{tests.name} has no test {test}{_no_case(case)}.")
    if case and not record["tests"]:
        raise CheckError(f"no test of {' '.join(names) or 'these modules'} takes {case!r}.")
    if not test and not case:
        saved_progress.add_points(
            folder, {module.name: (module.earned, module.points) for module in reports}
        )
    unknown = [name for name in names if name not in {report.name for report in reports}]
    if unknown and test:
        raise CheckError(f"{tests.name} has no test {test} of {unknown[0]}{_no_case(case)}.")
    if unknown:
        raise CheckError(f"{tests.name} has no tests of {unknown[0]}.")
    return Report(folder, reports, record["counts"], time.monotonic() - started, not_written)


def find(folder: Path) -> Path:
    """The folder of an assignment's tests.

    Raises:
        CheckError: there are none.
    """
    if not any((folder / CHECKS).glob("test_*.py")):
        raise CheckError(
            f"there is no {CHECKS}/ with tests in {folder.resolve()}: go to the assignment's "
            "folder."
        )
    return folder / CHECKS


def _no_case(case: str) -> str:
    return f" that takes {case!r}" if case else ""


def files(folder: Path, modules: Sequence[str] = ()) -> list[str]:
    """The files of public tests in a folder, of some modules or all, as seen from there."""
    tests = find(folder)
    names = [f"test_{name}.py" for name in modules] or sorted(
        path.name for path in tests.glob("test_*.py")
    )
    return [f"{CHECKS}/{name}" for name in names if (tests / name).is_file()]


def _record(
    folder: Path, modules: Sequence[str], test: str, case: str, timeout_s: float
) -> dict[str, Any]:
    tests = files(folder, modules)
    if not tests:
        raise CheckError(f"{CHECKS}/ has no tests of {modules[0]}.")
    with tempfile.TemporaryDirectory(prefix="ringside-check-") as scratch:
        path = Path(scratch) / "record.json"
        argv = ["-p", "ringside.checking.pytest_plugin", "-q"]
        # An empty configuration: nothing that lies above the folder matters.
        argv += ["-c", os.devnull, f"--rootdir={folder.resolve()}", "-p", "no:cacheprovider"]
        argv += [f"--ringside-record={path}", f"--ringside-modules={','.join(modules)}"]
        argv += [f"--ringside-test={test}", f"--ringside-case={case}"]
        argv += [f"--ringside-timeout={timeout_s!r}", *tests]
        environment = {
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(kit.ROOT), os.environ.get("PYTHONPATH")])
            ),
        }
        environment.pop("PYTEST_ADDOPTS", None)
        log = Path(scratch) / "output"
        with log.open("wb") as output:
            status = follow(argv, folder, environment, output, test_s=max(300.0, 15 * timeout_s))
        if not path.is_file() or status not in (0, 1, _NO_TESTS):
            printed = log.read_text(encoding="utf-8", errors="replace").splitlines()
            missing = next((m[1] for m in map(_NO_MODULE.match, printed) if m), None)
            if missing == "torch":
                need_torch(tests[0])
            if missing is not None:
                file = f"{missing.replace('.', '/')}.py"
                file = f"{missing}/" if missing in ("given", CHECKS) else file
                raise CheckError(
                    f"{tests[0]} needs {file}, which comes with the assignment: put it back."
                )
            raise CheckError("\n".join(["the tests could not be run:", *printed[-15:]]))
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return record


def _leave_timeline(folder: Path, module: str, record: dict[str, Any]) -> Path | None:
    svg = record["timelines"].get(module)
    if not svg:
        return None
    path = folder / TIMELINES / f"{module}.html"
    page = f"<!doctype html>\n<meta charset='utf-8'>\n<title>{module}</title>\n{svg}\n"
    try:
        write_atomically(path, page.encode())
    except OSError:  # a folder that can't be written: the points matter more than the picture
        return None
    return path


def text(report: Report) -> str:
    """What a person reads."""
    lines: list[str] = []
    for module in report.modules:
        earned, points = round(module.earned, 1), round(module.points, 1)
        lines.append(f"{module.name}: {earned:g} of {points:g} public points")
        if _unwritten(module):
            lines.append("  not written yet: every test meets `raise NotImplementedError`")
            continue
        if _end_alike(module):
            first = next(test for test in module.tests if not test.skipped)
            lines.append("  FAIL  every test, in the same way; the first:")
            lines += [f"          {line}" for line in _reason(first, whole=True)]
            continue
        lines += [f"  {line}" for line in textwrap.wrap(module.held_back, 90)]
        lines += _requirements(module)
        if module.timeline:
            of = f" of {sentence(module.timeline_of)}" if module.timeline_of else ""
            lines.append(f"  timeline{of}: {module.timeline}")
    for name in report.not_written:
        lines.append(f"{name}: not written yet")
    lines += _counts(report)
    lines.append(
        f"{report.seconds:.1f} s. Hidden tests ask the same on other sizes, values and machines."
    )
    return "\n".join(lines)


def _requirements(module: ModuleReport) -> list[str]:
    """Each requirement with its points, and why it lacks some; one reason is told once."""
    failures = {first.name: (first, others) for first, others in by_reason(_lacking(module), _told)}
    lines: list[str] = []
    explained = False
    for asked in module.requirements.each:
        mine = [test for test in module.tests if test.requirement == asked.name]
        if not mine:
            continue
        lines += _of_requirement(asked, mine, module.requirements.weighs(asked))
        for test, others in (failures[test.name] for test in mine if test.name in failures):
            first, *rest = _reason(test, whole=not explained)
            reasons = [f"{sentence(test.name)}: {first}", *rest]
            lines += [f"          {line}" for line in reasons]
            explained = explained or not (test.skipped or first.startswith(NOT_BEGUN))
            if others:
                lines += [f"          {line}" for line in textwrap.wrap(_the_same(others), 82)]
    return lines


def _lacking(module: ModuleReport) -> list[TestRecord]:
    """The tests that have less than all, in the order in which requirements are shown."""
    names = [asked.name for asked in module.requirements.each]
    lacking = [test for test in module.tests if test.skipped or not test.is_full]
    return sorted(lacking, key=lambda test: names.index(test.requirement))


def _of_requirement(asked: Requirement, tests: Sequence[TestRecord], weighs: str) -> list[str]:
    earned, points = earned_by(asked, tests)
    run = [test for test in tests if not test.skipped]
    full = all(test.is_full for test in run)
    mark = ("ok  " if full else "part" if earned else "FAIL") if run else "skip"
    says = asked.says if full or not weighs else f"{asked.says} ({weighs[0].upper()}{weighs[1:]}.)"
    lines = textwrap.wrap(says, 78)
    return [
        f"  {mark}  {f'{round(earned, 1):g}/{round(points, 1):g}':>9}  {lines[0]}",
        *(f"{'':19}{line}" for line in lines[1:]),
    ]


def _unwritten(module: ModuleReport) -> bool:
    """Whether nothing is to be said of the module but that it isn't written.

    A test of messages or memory may miss that no rank got that far.
    """
    run = [test for test in module.tests if test.kind == "values" and not test.skipped]
    return (
        module.earned == 0
        and bool(run)
        and all("NotImplementedError" in test.message for test in run)
    )


def _end_alike(module: ModuleReport) -> bool:
    """Whether all of several tests end with one exception at one line, as in a file with a typo."""
    run = [test.message for test in module.tests if not test.skipped]
    met = [re.search(r"raised \w+ at \S+: .*", message) for message in run]
    return len(run) > 1 and all(met) and len({match[0] for match in met if match}) == 1


def _told(test: TestRecord) -> str | None:
    """Why a test has less than all; None: its message is its own."""
    if not test.message:
        return None
    first = test.message.partition("\n")[0].partition(RIGHT_BESIDE)[0]
    return f"skipped: {first}" if test.skipped else reason(first)


def _the_same(others: Sequence[TestRecord]) -> str:
    """That tests fail for a reason that has been told."""
    lost = sum(test.points - test.earned for test in others)
    points = f" ({round(lost, 1):g} points)" if lost else ""
    names = "; ".join(sentence(test.name) for test in others)
    return f"the same in {format_count(len(others), 'more test')}{points}: {names}"


def _reason(test: TestRecord, *, whole: bool) -> list[str]:
    """Why a test gave no full points; later failures of a module get one line, not a table each."""
    sentence, *detail = test.message.splitlines() or [""]
    lines = [line for line in detail if line.strip() not in sentence][:30] if whole else []
    return [sentence, *lines, *([f"try: {test.reproduce}"] if test.reproduce else [])]


def check(*modules: str) -> None:
    """Run the public tests of modules from a notebook's cell, and show what they earned.

    The tests run in fresh processes on the files beside the notebook, so nothing stale is
    tested: run the %%module cell first.
    """
    for cell in notebook.split(Path(), [name.removesuffix(".py") for name in modules]):
        print(f"notice: {notebook.split_sentence(cell)}")
    report = run(Path(), modules)
    # nbgrader's Validate takes a cell for passed unless it wrote to stderr, and shows what it
    # wrote there.
    failed = "NBGRADER_VALIDATING" in os.environ and not report.passed
    print(text(report), file=sys.stderr if failed else sys.stdout)
    timeline = next((module.timeline for module in report.modules if module.timeline), None)
    if timeline is not None:
        from IPython.display import HTML, display

        display(HTML(timeline.read_text(encoding="utf-8")))  # type: ignore[no-untyped-call]


def _counts(report: Report) -> list[str]:
    if not report.counts:
        return []
    lines = ["counted by the network (largest of any rank):"]
    for entry in report.counts:
        bounds = [f"{name} at most {_largest(bound)}" for name, bound in entry["allowed"].items()]
        allowed = f" ({'; '.join(bounds)})" if bounds else ""
        messages, sent = max(entry["sent_messages"]), f"{max(entry['sent_bytes'])} bytes"
        if messages or not max(entry["sent_bytes"]):
            sent += f" in {format_count(messages, 'message')} sent"
        else:  # what collectives sent is counted as a ring's messages, but they are none
            sent += " in its library collectives"
        time_us = entry["makespan_s"] * 1e6
        lines.append(f"  {entry['case']}: {sent}, {time_us:.1f} µs{allowed}")
    return lines


def _largest(bound: Any) -> Any:
    return max(map(_largest, bound)) if isinstance(bound, list) and bound else bound
