"""Type the lines that reproduce: does what a failed test offers to type show the same failure?

For every hidden and public test one wrong submission that fails it is laid as a student has it,
and the test's line is typed in that folder, in a shell::

    same      the test's sentence stands in what the line prints
    numbers   it does, but for its numbers
    fault     what it says after the case's name does, but for its numbers
    value     the line prints the value, or raises the error, that the sentence is about
    fails     the line fails, too, and says something else
    silent    nothing is to be seen
    broken    the line can't be run
    no line   there is none

    autograder verify --lines a03_allreduce
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autograder import scratch, tables
from autograder.author.verify import verify
from autograder.author.verify.verify import Subject
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.digests import EXCEPTIONS
from autograder.grade.grading import run_suite, staged
from ringside.checking.essential import is_held

SHOWN = ("same", "numbers", "fault", "value")  # a reader sees the failure that the test is about
OUTCOMES = (*SHOWN, "fails", "silent", "broken", "no line")
TIMEOUT_S = 120.0
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*(?:e[-+]?\d+)?|\binf\b|\bnan\b)")
_VALUE = re.compile(r"\b(?:is|has) (.+?)(?: s)?[;,] (?:it|the|which|')|\braised (\w+)")


@dataclass(frozen=True)
class Typed:
    """What came of one test's line."""

    unit: str
    module: str
    suite: str  # "hidden" or "public"
    test: str
    wrong: str  # the wrong submission that fails it
    line: str
    sentence: str
    outcome: str
    output: str = ""
    exact: bool = False  # the line is the test itself: it must show the same sentence

    @property
    def shows(self) -> bool:
        """Whether a reader of what the line prints sees the failure."""
        return self.outcome == "same" if self.exact else self.outcome in SHOWN

    @property
    def name(self) -> str:
        return f"{self.unit}/{self.module}/{self.suite}/{self.test}"


def judge(sentence: str, line: str, output: str, status: int) -> str:
    """How much of a test's sentence a typed line shows."""
    if not line:
        return "no line"
    text, whole = _flat(output), _first(_flat(sentence))
    if whole in text:
        return "same"
    if _bare(whole) in _bare(text):
        return "numbers"
    fault = whole.partition(": ")[2]
    if fault and _bare(fault) in _bare(text):
        return "fault"
    if line.startswith("python -c") and _prints(whole, text):
        return "value"
    if status == 0:
        return "silent"
    return "fails" if status == 1 else "broken"


def _prints(sentence: str, said: str) -> bool:
    """Whether a line that only prints shows the value, or the error, that a sentence names."""
    about = _VALUE.search(sentence)
    if about is None:
        return False
    value = (about[1] or about[2]).strip("'")
    if value in said:
        return True
    try:
        target = float(value)
    except ValueError:
        return False
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", said)]
    return any(abs(candidate - target) <= 1e-4 * abs(target) for candidate in numbers)


def _first(text: str) -> str:
    """The first sentence; what follows explains it."""
    return re.split(r"(?<=[^.])\. (?=[A-Z])", text)[0].rstrip(".")


def _flat(text: str) -> str:
    return " ".join(text.split())


def _bare(text: str) -> str:
    """Without numbers."""
    return _NUMBER.sub("#", text)


def type_line(line: str, folder: Path) -> tuple[str, int]:
    """What a line prints in a folder, and its exit status."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {TIMEOUT_S:g} s", 2
    return done.stdout + done.stderr, done.returncode


@contextmanager
def laid(plan: Assignment, module: str, source: str) -> Iterator[Path]:
    """A student's folder: what is supplied, public tests, right modules but one of this text."""
    solution = Course.here().solution(plan.name)
    with scratch.fresh("lines-") as folder:
        others = [spec.filename for spec in plan.modules]  # which may be imported
        names = (*plan.supplied, *filter(None, [plan.public_tests]), *others)
        scratch.lay(names, solution, folder)
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        yield folder


def hidden_line(
    plan: Assignment, module: str, test: str, wrong: str, source: str, secret: str = "lines"
) -> Typed | None:
    """What comes of a hidden test's line for a wrong submission; None: it passes the test."""
    with staged(plan, {module: source}) as stage:
        result = run_suite(plan, module, stage, secret=secret, sandbox=False, about=test)
    failure = next((t for t in result.tests if t.name == test and not t.is_full), None)
    if failure is None:
        return None
    with laid(plan, module, source) as folder:
        return _typed(plan, module, "hidden", test, wrong, asdict(failure), folder)


def _typed(
    plan: Assignment,
    module: str,
    suite: str,
    test: str,
    wrong: str,
    found: dict[str, Any],
    folder: Path,
) -> Typed:
    line = found["reproduce"]
    sentence = str(found["message"]).splitlines()[0] if found["message"] else ""
    output, status = type_line(line, folder) if line else ("", 0)
    outcome = judge(sentence, line, output, status)
    output = output[-4000:]
    return Typed(
        plan.name, module, suite, test, wrong, line, sentence, outcome, output, plan.tests_once
    )


def public_lines(
    plan: Assignment, module: str, wrongs: Mapping[str, str], at_most: int = 5
) -> list[Typed]:
    """What comes of the lines of a module's public tests, each for the first wrong one it fails."""
    typed: dict[str, Typed] = {}
    for wrong, source in list(wrongs.items())[:at_most]:
        with laid(plan, module, source) as folder:
            output, _ = type_line(f"ringside check {module} --json", folder)
            try:
                tests = json.loads(output)["modules"][module]["tests"]
            except (ValueError, KeyError):
                continue
            for result in tests:
                if fails(result) and result["name"] not in typed:
                    typed[result["name"]] = _typed(
                        plan, module, "public", result["name"], wrong, result, folder
                    )
    return list(typed.values())


def fails(test: Mapping[str, Any]) -> bool:
    """Whether a public test failed by itself: it ran, and no other one holds its points back."""
    failed = test["earned"] < test["points"] and not test["skipped"]
    return failed and not is_held(test["message"])


def type_all(
    plan: Assignment,
    only: str = "",
    *,
    jobs: int = 1,
    suites: Sequence[str] = ("hidden", "public"),
    progress: Callable[[Typed], None] = lambda typed: None,
) -> list[Typed]:
    """Type the lines of an assignment's tests.

    Args:
        only: part of MODULE/TEST, such as ``ring/``.
    """
    subjects: dict[tuple[str, str], Subject] = {}
    for subject in verify.subjects(plan):
        if subject.kind == "wrong" and only in f"{subject.module}/{subject.fails}":
            # A test that is written once has another line for each of its cases.
            about = subject.name if plan.tests_once else subject.fails
            subjects.setdefault((subject.module, about), subject)
    all_typed: list[Typed] = []

    def one(subject: Subject) -> Typed | None:
        return hidden_line(plan, subject.module, subject.fails, subject.name, subject.source)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for typed in pool.map(one, subjects.values()) if "hidden" in suites else ():
            if typed is not None:
                all_typed.append(typed)
                progress(typed)
    if plan.tests_once:  # the lines are those of public tests
        return all_typed
    for module in dict.fromkeys(module for module, _ in subjects) if "public" in suites else ():
        wrongs = {
            wrong.name: wrong.source for (name, _), wrong in subjects.items() if name == module
        }
        for typed in public_lines(plan, module, wrongs):
            all_typed.append(typed)
            progress(typed)
    return all_typed


def faults(all_typed: Iterable[Typed], exceptions: Mapping[str, str]) -> list[str]:
    """Lines that don't show their failure and are no exception, and exceptions not needed.

    Args:
        exceptions: a test's name, ``a03_allreduce/ring/hidden/test_...``, and the reason.
    """
    lines = []
    for typed in all_typed:
        if not typed.shows and typed.name not in exceptions:
            lines.append(f"{typed.name}: {typed.outcome}, and it is no exception in {EXCEPTIONS}")
        if typed.shows and typed.name in exceptions:
            lines.append(f"{typed.name}: shown, so it need be no exception in {EXCEPTIONS}")
    return lines


def exceptions_of(solution: Path) -> dict[str, str]:
    """Tests of an assignment whose lines don't show their failure, each with its reason.

    Raises:
        TableError: the file is no TOML.
    """
    path = solution / EXCEPTIONS
    table = tables.read(path) if path.is_file() else {}
    return {f"{solution.name}/{test}": str(reason) for test, reason in table.items()}


def table(all_typed: Sequence[Typed]) -> str:
    """A line for each test whose failure isn't shown, and what came of all lines."""
    lines = [
        f"{each.outcome:<8} {each.name} ({each.wrong})\n         {each.sentence[:150]}\n"
        f"         {each.line[:150]}"
        for each in all_typed
        if not each.shows
    ]
    units = list(dict.fromkeys(each.unit for each in all_typed))
    lines.append(f"{'':<22}" + "".join(f"{outcome:>9}" for outcome in OUTCOMES))
    for unit in [*units, "all"]:
        counted = Counter(each.outcome for each in all_typed if unit in (each.unit, "all"))
        lines.append(f"{unit:<22}" + "".join(f"{counted[each]:>9}" for each in OUTCOMES))
    return "\n".join(lines)
