"""Type the lines that reproduce: does what a failed test offers to type show the same failure?

Every wrong submission is laid as a student has it, and the line of the test that it fails is typed
in that folder, in a shell::

    same      the test's sentence stands in what the line prints
    numbers   it does, but for its numbers, as those of memory
    fails     the line fails, too, and says something else
    silent    nothing is to be seen
    broken    the line can't be run
    no line   there is none

    autograder verify --lines a03_allreduce
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autograder import scratch
from autograder.author.verify import verify
from autograder.author.verify.verify import Subject
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade.grading import run_suite, staged

SHOWN = ("same", "numbers")  # a reader sees the failure that the test is about
OUTCOMES = (*SHOWN, "fails", "silent", "broken", "no line")
TIMEOUT_S = 120.0
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*(?:e[-+]?\d+)?|\binf\b|\bnan\b)")


@dataclass(frozen=True)
class Typed:
    """What came of one test's line."""

    unit: str
    module: str
    test: str
    wrong: str  # the wrong submission that fails it
    line: str
    sentence: str
    outcome: str
    output: str = ""

    @property
    def shows(self) -> bool:
        """Whether a reader of what the line prints sees the failure."""
        return self.outcome in SHOWN

    @property
    def name(self) -> str:
        return f"{self.unit}/{self.module}/{self.test}"


def judge(sentence: str, line: str, output: str, status: int) -> str:
    """How much of a test's sentence a typed line shows."""
    if not line:
        return "no line"
    text, whole = _flat(output), _first(_flat(sentence))
    if whole in text:
        return "same"
    if _bare(whole) in _bare(text):
        return "numbers"
    if status == 0:
        return "silent"
    return "fails" if status == 1 else "broken"


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
    """A student's folder: what is supplied, and right modules but one, which is of this text."""
    solution = Course.here().solution(plan.name)
    with scratch.fresh("lines-") as folder:
        others = [spec.filename for spec in plan.modules]  # which may be imported
        scratch.lay((*plan.supplied, *others), solution, folder)
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        yield folder


def typed_line(plan: Assignment, subject: Subject, secret: str = "lines") -> Typed | None:
    """What comes of the line of the test that a wrong submission fails; None: it passes."""
    module, test = subject.module, subject.fails
    with staged(plan, {module: subject.source}) as stage:
        result = run_suite(plan, module, stage, secret=secret, sandbox=False, about=test)
    failure = next((t for t in result.tests if t.name == test and not t.is_full), None)
    if failure is None:
        return None
    line, output, status = failure.reproduce, "", 0
    sentence = failure.message.splitlines()[0] if failure.message else ""
    if line:
        with laid(plan, module, subject.source) as folder:
            output, status = type_line(line, folder)
    outcome = judge(sentence, line, output, status)
    return Typed(plan.name, module, test, subject.name, line, sentence, outcome, output[-4000:])


def type_all(
    plan: Assignment,
    only: str = "",
    *,
    jobs: int = 1,
    progress: Callable[[Typed], None] = lambda typed: None,
) -> list[Typed]:
    """Type the lines of an assignment's wrong submissions.

    Args:
        only: part of MODULE/TEST, such as ``ring/``.
    """
    subjects = [
        subject
        for subject in verify.subjects(plan)
        if subject.kind == "wrong" and only in f"{subject.module}/{subject.fails}"
    ]
    all_typed: list[Typed] = []
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for typed in pool.map(lambda subject: typed_line(plan, subject), subjects):
            if typed is not None:
                all_typed.append(typed)
                progress(typed)
    return all_typed


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
