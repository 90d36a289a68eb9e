"""A student's mark, as every platform wants it: what was earned, what lateness took, what is left.

``raw_score - late_penalty = score``. Marks come from nbgrader's gradebook where it has graded the
assignment (paragraphs, cluster runs and corrections by hand are in it), else from the suites'
results and our late policy, which agree with it otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry

from autograder import feedback, gradebook
from autograder.assignment import Assignment, AssignmentError
from autograder.course import Course
from autograder.late import Late
from autograder.outcome import Outcome
from autograder.safe_csv import write_csv

COLUMNS = (
    "student", "email", "last_name", "first_name", "status",
    "raw_score", "late_penalty", "score", "max_score", "comment",
)  # fmt: skip
MAX_COMMENT = 4_000


class ExportError(AssignmentError):
    """Marks that can't be written as asked; nothing is written then."""


@dataclass(frozen=True)
class Mark:
    """One student's mark; scores are None where the submission is still to be graded."""

    student: str
    status: str
    raw_score: float | None
    late_penalty: float
    max_score: float
    comment: str = ""
    email: str = ""
    last_name: str = ""
    first_name: str = ""

    @property
    def score(self) -> float | None:
        """What counts, lateness taken off."""
        if self.raw_score is None:
            return None
        return round(max(0.0, self.raw_score - self.late_penalty), 2)

    def value(self, *, raw: bool) -> float | None:
        """The score that is exported: `raw` is before lateness."""
        return (None if self.raw_score is None else round(self.raw_score, 2)) if raw else self.score


def from_outcomes(
    plan: Assignment, outcomes: Sequence[Outcome], late: Mapping[str, Late]
) -> list[Mark]:
    """Marks from what the suites gave; a grader's error is no zero."""
    return [_mark(plan, outcome, late.get(outcome.student)) for outcome in outcomes]


def _mark(plan: Assignment, outcome: Outcome, late: Late | None) -> Mark:
    raw = None if outcome.status == "grader_error" else outcome.score(plan)
    percent = late.percent if late else 0.0
    return Mark(
        student=outcome.student,
        status=outcome.status,
        raw_score=raw,
        late_penalty=round((raw or 0.0) * percent / 100, 4),
        email=outcome.email,
        max_score=plan.max_score,
        comment=comment(plan, outcome, late),
    )


def from_gradebook(
    course: Course, plan: Assignment, outcomes: Sequence[Outcome], late: Mapping[str, Late]
) -> list[Mark]:
    """Marks as nbgrader keeps them; empty where it has no submission of the assignment."""
    if not course.database.is_file():
        return []
    by_student = {outcome.student: outcome for outcome in outcomes}
    found = []
    with gradebook.open_gradebook(course) as book:
        for row in gradebook.rows(book, [plan.name], []):
            student = str(row["student"])
            if not _submitted(book, plan.name, student):
                continue
            outcome = by_student.get(student)
            waits = row["raw_score"] == "" or (
                outcome is not None and outcome.status == "grader_error"
            )
            found.append(
                Mark(
                    student=student,
                    status=outcome.status if outcome else "graded",
                    raw_score=None if waits else float(str(row["raw_score"])),
                    late_penalty=float(str(row["late_penalty"] or 0.0)),
                    max_score=float(str(row["max_score"])),
                    comment=comment(plan, outcome, late.get(student)) if outcome else "",
                    email=str(book.find_student(student).email or ""),
                    last_name=str(row["last_name"]),
                    first_name=str(row["first_name"]),
                )
            )
    return found


def _submitted(book: Any, assignment: str, student: str) -> bool:
    try:
        book.find_submission(assignment, student)
    except MissingEntry:
        return False
    return True


def comment(plan: Assignment, outcome: Outcome, late: Late | None) -> str:
    """A few lines for the student: points by module, the first sentence of each that fails."""
    if outcome.status != "graded":
        return feedback.shown(outcome.message, MAX_COMMENT)
    lines = list(outcome.intake)
    for module in plan.modules:
        line = f"{module.name}: {outcome.points(module):g} of {module.weight:g}"
        if module.name in outcome.untouched or module.name not in outcome.modules:
            line += ", not begun"
        else:
            failed = feedback.failures(feedback.test_rows(outcome, module))
            told = " ".join(failed[0].test.message.split()) if failed else ""
            line += f". {told}" if told else ""
        lines.append(line)
    if late is not None:
        lines.append(f"{feedback.duration(late.late_s)} late. {late.sentence}")
    return feedback.shown("\n".join(lines), MAX_COMMENT)


def write(path: Path, marks: Sequence[Mark]) -> None:
    """A plain CSV of marks."""
    table = [{name: _cell(getattr(mark, name)) for name in COLUMNS} for mark in marks]
    write_csv(path, COLUMNS, table)


def _cell(value: object) -> object:
    return "" if value is None else value
