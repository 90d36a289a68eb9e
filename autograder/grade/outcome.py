"""What came of one submission: its status, its points, and what is to be said.

A suite's result is data from our own process, but numbers in it are read as if it were not:
a score is finite and between nothing and the maximum, whatever stands there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

from autograder.collect.cluster_run import RunCheck
from autograder.course.assignment import Assignment, ModuleSpec
from autograder.course.decisions import Decision
from autograder.grade.points import Account, CellMark, Kind, Part
from autograder.grade.suite.result import ModuleResult, TestResult
from ringside.checking.requirements import ALL_POINTS, earned_by
from ringside.units import format_count

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
    """One submission after grading, with the results of its modules."""

    student: str
    status: Status
    message: str = ""  # why it is not graded
    results: dict[str, ModuleResult] = field(default_factory=dict)  # by module; none: not graded
    notes: list[str] = field(default_factory=list)
    intake: list[str] = field(default_factory=list)  # notes that the instructor must hear, too
    untouched: tuple[str, ...] = ()
    modules: dict[str, str] = field(default_factory=dict)  # name -> source text
    runs: list[RunCheck] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # name -> what was written, for a person
    guesses: dict[str, list[float | str | None]] = field(default_factory=dict)  # no part of it
    hints: dict[str, int] = field(default_factory=dict)  # by module; no part of it either
    cells: dict[str, CellMark] | None = None  # the gradebook's, by part; None without one
    late_seconds: float = 0.0
    key: str = ""
    graded_at: float = 0.0  # when the newest of its results was stored, in seconds of the epoch
    measured: list[dict[str, Any]] | None = None  # `grade --measured`; no part of the score
    doubts: list[str] = field(default_factory=list)  # for the instructor, from beside the others
    name: str = ""  # for a reader, where a platform knows the student by a number
    email: str = ""
    team: str = ""  # whose one submission it is
    excused: bool = False  # it counts neither for nor against
    request: str = ""  # for a regrade, as the student wrote it
    decisions: list[Decision] = field(default_factory=list)  # a person's, the oldest first

    @property
    def author(self) -> tuple[str, str]:
        """Whose work it is: the same for all members of a team."""
        return ("team", self.team) if self.team else ("student", self.student)

    @property
    def who(self) -> str:
        """The student, for a reader: with the name, where that is another one."""
        has_name = self.name and self.name != self.student
        return f"{self.student} ({self.name})" if has_name else self.student

    def tests(self, module: str) -> list[TestResult]:
        """The tests of one module, in the suite's order."""
        return self.results[module].tests if module in self.results else []

    @property
    def sandbox(self) -> str:
        """What held its ranks, or empty where none ran."""
        return next((result.sandbox for result in self.results.values() if result.sandbox), "")

    @property
    def flags(self) -> list[str]:
        """What the instructor should look at; it has no effect on the score."""
        of_modules = [f"{n}: {flag}" for n, result in self.results.items() for flag in result.flags]
        return of_modules + [run.flag for run in self.runs if run.flag] + self.doubts

    def waived(self, plan: Assignment) -> list[str]:
        """A sentence for each test whose points went to all: `ring, test_pairs (4 of 100): why`."""
        return [
            f"{module.name}, {test.name} ({test.points:g} of {ALL_POINTS:g}): {test.waived}"
            for module in plan.modules
            for test in self.tests(module.name)
            if test.waived
        ]

    @property
    def empty(self) -> str:
        """A sentence, where none of the assignment's modules was handed in: its zero looks odd."""
        return (
            ""
            if self.status != "graded" or self.modules
            else "None of the modules is in what was handed in."
        )

    def _requirements(self, module: str) -> list[dict[str, Any]]:
        """What a module is asked for, as `--json` writes it."""
        result = self.results.get(module)
        asked = result.requirements if result else None
        if asked is None:
            return []
        return [
            {
                "name": each.name,
                "says": each.says,
                "points": each.points,
                "earned": round(earned_by(each, self.tests(module))[0], 4),
                "is_the_point": each.name == asked.the_point,
                "limit": asked.limit(each),
            }
            for each in asked.each
        ]

    def percent(self, module: str) -> float:
        """What the suite gave a module, of 100."""
        return clamp(self.results[module].score, ALL_POINTS) if module in self.results else 0.0

    def points(self, module: ModuleSpec) -> float:
        """What a module earns in the assignment, of its weight."""
        return round(module.weight * self.percent(module.name) / ALL_POINTS, 4)

    def score(self, assignment: Assignment) -> float:
        """What is given so far: modules, extra ones too, run, and texts that a person has read."""
        return self.account(assignment).score

    def account(self, assignment: Assignment) -> Account:
        """What each part of the assignment earned."""
        cells = self.cells or {}
        runs = {run.name: run for run in self.runs}
        failed, graded = self.status == "grader_error", self.status == "graded"
        parts: list[Part] = []

        def add(
            name: str, title: str, kind: Kind, of: float, points: float | None, waits: bool = False
        ) -> None:
            cell = cells.get(name)
            if cell is not None:
                waits = kind == "run" and cell.waits and cell.points is None
                parts.append(
                    Part(name, title, kind, of, cell.points, cell.by_hand, cell.comment, waits)
                )
            else:
                parts.append(Part(name, title, kind, of, points, waits=waits))

        for module in assignment.modules:
            earned = None if failed else self.points(module) if graded else 0.0
            kind: Kind = "extra" if module.extra else "module"
            add(module.name, module.title, kind, module.weight, earned)
        for run in assignment.runs:
            checked = runs.get(run.name) if graded else None
            waits = checked is not None and checked.waits
            earned = None if failed or waits else checked.points if checked else 0.0
            add(run.name, f"{run.module}.py on the cluster", "run", run.points, earned, waits)
        for text in assignment.paragraphs:
            add(text.name, text.title, "text", text.points, None)
        return Account(tuple(parts))

    def missing(self, assignment: Assignment) -> list[str]:
        """What keeps a submission of the gradebook from being graded; empty: nothing does.

        A rejected submission, and one where the grader failed, is graded once a person has given
        every module and run its points.
        """
        if self.excused:
            return []
        cells = self.cells or {}
        names = [module.name for module in assignment.modules if not module.extra]
        names += [run.name for run in assignment.runs]
        by_hand = bool(cells) and all(name in cells and cells[name].by_hand for name in names)
        reasons = []
        runs = [
            run.name
            for run in assignment.runs
            if (cell := cells.get(run.name)) and cell.waits and cell.points is None
        ]
        if self.status != "graded" and not by_hand:
            reasons.append(f"{self.status}: {' '.join(self.message.split())}")
        elif any(cells[n].points is None for n in names if n in cells and n not in runs):
            return ["not autograded yet"]
        elif runs:
            reasons.append(f"{format_count(len(runs), 'run')} to grade by hand ({', '.join(runs)})")
        texts = [t.name for t in assignment.paragraphs if t.name in cells and cells[t.name].waits]
        if texts:
            reasons.append(
                f"{format_count(len(texts), 'text')} to grade by hand ({', '.join(texts)})"
            )
        again = [
            name
            for name, cell in cells.items()
            if cell.waits and name not in texts and cell.points is not None
        ]
        if again:
            graded = ", ".join(again)
            reasons.append(f"{graded}: graded by hand, and graded again since: look at it")
        return reasons

    def as_json(self, assignment: Assignment) -> dict[str, Any]:
        """The submission in the form that `autograder grade --json` writes."""
        account = self.account(assignment)
        report: dict[str, Any] = {
            "student": self.student,
            **({"name": self.name} if self.name else {}),
            "status": self.status,
            "score": None if self.excused else account.score,
            "max_score": 0.0 if self.excused else account.max_score,
            **({"excused": True} if self.excused else {}),
            **({"team": self.team} if self.team else {}),
            "late_seconds": self.late_seconds,
            "modules": {
                module.name: {
                    "score": self.percent(module.name),
                    "max_score": ALL_POINTS,
                    "requirements": self._requirements(module.name),
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
                    **({"to_grade_by_hand": True} if run.waits else {}),
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


def _public(test: TestResult) -> dict[str, Any]:
    """A test as the report gives it; the line that reproduces a failure follows the sentence."""
    message = f"{test.message}\n{test.reproduce}" if test.message and test.reproduce else ""
    return {
        "name": test.name,
        **({"requirement": test.requirement} if test.requirement else {}),
        "points": round(test.points, 4),
        "earned": test.earned,
        "message": message or test.message,
        "seconds": test.seconds,
        **({"waived": test.waived} if test.waived else {}),
    }
