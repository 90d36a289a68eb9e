"""What came of one submission: its status, its points, and what is to be said.

A suite's result is data from our own process, but numbers in it are read as if it were not:
a score is finite and between nothing and the maximum, whatever stands there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from autograder.course.assignment import SUITE_POINTS, Assignment, ModuleSpec
from autograder.grade.points import Account, CellMark
from autograder.grade.points import account as account_of
from autograder.submission.cluster_run import RunCheck

Status = Literal["graded", "rejected", "grader_error"]


def clamp(value: object, most: float) -> float:
    """`value` as a number from 0 to `most`; what is no finite number is 0."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0
    return min(max(number, 0.0), most) if math.isfinite(number) else 0.0


@dataclass
class Outcome:
    """One submission after grading; `result` is what `autograder.grade.grading` gave."""

    student: str
    status: Status
    message: str = ""  # why it is not graded
    result: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    intake: list[str] = field(default_factory=list)  # notes that the instructor must hear, too
    untouched: tuple[str, ...] = ()
    modules: dict[str, str] = field(default_factory=dict)  # name -> source text
    runs: list[RunCheck] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # name -> what was written, for a person
    cells: dict[str, CellMark] | None = None  # the gradebook's, by part; None without one
    late_seconds: float = 0.0
    key: str = ""
    graded_at: float = 0.0  # when the newest of its results was stored, in seconds of the epoch
    measured: list[dict[str, Any]] | None = None  # `grade --measured`; no part of the score
    name: str = ""  # for a reader, where a platform knows the student by a number
    email: str = ""

    @property
    def who(self) -> str:
        """The student, for a reader: with the name, where that is another one."""
        told = f"{self.student} ({self.name})"
        return told if self.name and self.name != self.student else self.student

    def tests(self, module: str) -> list[dict[str, Any]]:
        """The tests of one module, in the suite's order."""
        tests = self.result.get("modules", {}).get(module, {}).get("tests", [])
        return list(tests) if isinstance(tests, list) else []

    @property
    def flags(self) -> list[str]:
        """What the instructor should look at; it has no effect on the score."""
        modules = self.result.get("modules", {})
        return [f"{name}: {text}" for name, m in modules.items() for text in m.get("flags") or ()]

    @property
    def empty(self) -> str:
        """A sentence, where none of the assignment's modules was handed in: its zero looks odd."""
        return (
            ""
            if self.status != "graded" or self.modules
            else "None of the modules is in what was handed in."
        )

    def percent(self, module: str) -> float:
        """What the suite gave a module, of 100."""
        entry = self.result.get("modules", {}).get(module, {})
        return clamp(entry.get("score"), SUITE_POINTS)

    def points(self, module: ModuleSpec) -> float:
        """What a module earns in the assignment, of its weight."""
        return round(module.weight * self.percent(module.name) / SUITE_POINTS, 4)

    def score(self, assignment: Assignment) -> float:
        """What is given so far: modules, extra ones too, run, and texts that a person has read."""
        return self.account(assignment).score

    def account(self, assignment: Assignment) -> Account:
        """What each part of the assignment earned."""
        return account_of(assignment, self)

    def as_json(self, assignment: Assignment) -> dict[str, Any]:
        """The submission in the form that `autograder grade --json` writes."""
        account = self.account(assignment)
        report: dict[str, Any] = {
            "student": self.student,
            **({"name": self.name} if self.name else {}),
            "status": self.status,
            "score": account.score,
            "max_score": account.max_score,
            "late_seconds": self.late_seconds,
            "modules": {
                module.name: {
                    "score": self.percent(module.name),
                    "max_score": SUITE_POINTS,
                    "tests": [_public(test) for test in self.tests(module.name)],
                }
                for module in assignment.modules
            }
            if self.status == "graded"
            else {},
            "runs": {
                run.name: {
                    "score": run.points,
                    "max_score": run.max_points,
                    "findings": [{"ok": ok, "says": says} for ok, says in run.findings],
                }
                for run in self.runs
            },
            "texts": {
                part.name: {"score": part.points, "max_score": part.of}
                for part in account.of_kind("text")
            },
            "to_grade_by_hand": account.by_hand,  # of max_score, and not in score
        }
        if self.message:
            report["message"] = self.message
        if self.intake:
            report["notes"] = self.intake
        if self.flags:
            report["flags"] = self.flags
        if self.measured is not None:
            report["measured"] = self.measured
        return report


def _public(test: dict[str, Any]) -> dict[str, Any]:
    """A test as the report gives it; the line that reproduces a failure follows the sentence."""
    message = str(test.get("message") or "")
    if message and test.get("reproduce"):
        message += f"\n{test['reproduce']}"
    return {
        "name": test.get("name"),
        "points": test.get("points"),
        "earned": test.get("earned"),
        "message": message,
        "seconds": test.get("seconds"),
    }
