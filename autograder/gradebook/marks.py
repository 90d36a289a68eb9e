"""A student's mark, as every platform wants it: what was earned, what lateness took, what is left.

``raw_score - late_penalty = score``. Marks come from nbgrader's gradebook where it has graded the
assignment, of the assignment's total: texts, points and comments by hand are in it. Else they come
from the suites, the check of run.json and our late policy, of a total without the texts.

A mark that lacks something (a text to read, a rejected file, a grader's fault) is no zero: it has
no score, and says what is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.course import database
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.course.late import Late
from autograder.grade import points
from autograder.grade.outcome import Outcome
from autograder.grade.points import Part
from autograder.gradebook.nbgrader import csv_export, grades
from autograder.gradebook.report import feedback
from autograder.safe_csv import write_csv

COLUMNS = (
    "student", "email", "last_name", "first_name", "status",
    "raw_score", "late_penalty", "score", "max_score", "missing", "by_hand", "comment",
)  # fmt: skip
MAX_COMMENT, MAX_COMMENT_LINES = 4_000, 60


class ExportError(AssignmentError):
    """Marks that can't be written as asked; nothing is written then."""


@dataclass(frozen=True)
class Mark:
    """One student's mark; scores are None where something is missing."""

    student: str
    status: str
    raw_score: float | None
    late_penalty: float
    max_score: float
    comment: str = ""
    email: str = ""
    last_name: str = ""
    first_name: str = ""
    missing: str = ""  # what keeps it from being finished
    by_hand: str = ""  # points that a person gave
    hand_comment: str = ""  # what a person wrote; it is in the comment, too
    excused: bool = False  # no score, and no zero
    waived: str = ""  # tests whose points went to all, with the reasons

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
    missing = "; ".join(outcome.missing(plan))
    raw = None if missing else outcome.score(plan)
    percent = late.percent if late else 0.0
    return Mark(
        student=outcome.student,
        status=outcome.status,
        raw_score=raw,
        late_penalty=round((raw or 0.0) * percent / 100, 4),
        email=outcome.email,
        max_score=plan.machine_points,
        comment=comment(plan, outcome, late),
        missing=missing,
        waived="; ".join(outcome.waived(plan)),
    )


def from_gradebook(
    course: Course, plan: Assignment, outcomes: Sequence[Outcome], late: Mapping[str, Late]
) -> list[Mark]:
    """Marks as nbgrader keeps them; empty where it has no submission of the assignment.

    Who handed in and is not in the gradebook has a mark that says so.
    """
    if not course.database.is_file():
        return []
    by_student = {outcome.student: outcome for outcome in outcomes}
    marks = {}
    with database.open_gradebook(course) as book:
        for row in csv_export.rows(book, [plan.name], []):
            student = str(row["student"])
            outcome = grades.recorded(book, course, plan, student, by_student.get(student))
            if outcome is not None:
                email = str(book.find_student(student).email or "")
                marks[student] = _recorded(plan, outcome, row, late.get(student), email)
    absent = [outcome for outcome in outcomes if marks and outcome.student not in marks]
    return [*marks.values(), *(_absent(plan, outcome) for outcome in absent)]


def _recorded(
    plan: Assignment, outcome: Outcome, row: Mapping[str, object], late: Late | None, email: str
) -> Mark:
    lacks = outcome.missing(plan)
    if row["raw_score"] == "" and not lacks:
        lacks = ["not autograded yet"]
    account = outcome.account(plan)
    return Mark(
        student=outcome.student,
        status=outcome.status,
        raw_score=None if lacks else float(str(row["raw_score"])),
        late_penalty=float(str(row["late_penalty"] or 0.0)),
        max_score=float(str(row["max_score"])),
        comment=comment(plan, outcome, late),
        email=email,
        last_name=str(row["last_name"]),
        first_name=str(row["first_name"]),
        missing="; ".join(lacks),
        by_hand="; ".join(points.hand_points(account)),
        hand_comment="\n".join(points.hand_comments(account)),
        waived="; ".join(outcome.waived(plan)),
    )


def _absent(plan: Assignment, outcome: Outcome) -> Mark:
    why = f"handed in, and not in the gradebook: `nbgrader autograde {plan.name}`"
    return Mark(outcome.student, outcome.status, None, 0.0, plan.max_score, missing=why)


def excuse(plan: Assignment, found: Sequence[Mark], free: Collection[str]) -> list[Mark]:
    """The marks, where those who need not do it have none; who handed in nothing is added."""
    most = found[0].max_score if found else plan.max_score
    there = {mark.student for mark in found}
    return [
        *(_excused(mark) if mark.student in free else mark for mark in found),
        *(_excused(Mark(name, "", None, 0.0, most)) for name in sorted(free) if name not in there),
    ]


def _excused(mark: Mark) -> Mark:
    return replace(
        mark,
        status="excused",
        raw_score=None,
        late_penalty=0.0,
        comment="Excused: it counts neither for nor against you.",
        missing="",
        by_hand="",
        hand_comment="",
        excused=True,
    )


def comment(plan: Assignment, outcome: Outcome, late: Late | None) -> str:
    """A few lines for the student: the points of each part, the first sentence of what fails,
    and what a person wrote.
    """
    account = outcome.account(plan)
    lines = list(outcome.intake)
    if outcome.status != "graded":
        lines.append(" ".join(outcome.message.split()))
    if outcome.status == "graded" or outcome.cells is not None:
        lines += [_line(plan, outcome, part) for part in account.parts]
    if late is not None:
        lines.append(f"{feedback.duration(late.late_s)} late. {late.sentence}")
    lines += [f"Waived for all: {entry}" for entry in outcome.waived(plan)]
    lines += [f"Decided {entry.sentence}" for entry in outcome.decisions]
    return feedback.shown("\n".join(lines), MAX_COMMENT, MAX_COMMENT_LINES)


def _line(plan: Assignment, outcome: Outcome, part: Part) -> str:
    sentences = [part.line]
    if part.kind == "run":
        checked = (run for run in outcome.runs if run.name == part.name and not part.points)
        sentences += [says for run in checked for ok, says in run.findings if not ok][:1]
    elif part.kind != "text" and outcome.status == "graded":
        if part.name in outcome.untouched or part.name not in outcome.modules:
            sentences[0] += ", not begun"
        else:
            rows = feedback.test_rows(outcome, plan.module(part.name))
            failed = feedback.failures(rows)
            sentences += [" ".join(failed[0].test.message.split())] if failed else []
    sentences += [part.comment] if part.comment else []
    return ". ".join(sentence for sentence in sentences if sentence)


def write(path: Path, marks: Sequence[Mark]) -> None:
    """A plain CSV of marks."""
    columns = (*COLUMNS, "waived") if any(mark.waived for mark in marks) else COLUMNS
    table = [{name: _cell(getattr(mark, name)) for name in columns} for mark in marks]
    for row, mark in zip(table, marks, strict=True):
        if mark.excused:  # sums of the column leave it out
            row |= {"late_penalty": "", "max_score": ""}
    write_csv(path, columns, table)


def _cell(value: object) -> object:
    return "" if value is None else value
