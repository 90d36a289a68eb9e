"""`nbgrader export`: the gradebook as CSV, a row for each student and assignment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry
from nbgrader.plugins import ExportPlugin

from autograder.course import assignment as plans
from autograder.course import excused
from autograder.course.course import Course
from autograder.course.database import open_gradebook
from autograder.course.nbgrader_steps import quiet
from autograder.grade import points
from autograder.gradebook.nbgrader.grades import recorded
from autograder.gradebook.nbgrader.settled import settle
from autograder.safe_csv import write_csv

COLUMNS = (
    "assignment", "student", "last_name", "first_name", "submitted", "late_seconds",
    "raw_score", "late_penalty", "score", "max_score", "needs_manual_grade",
    "missing", "by_hand", "comments", "excused",
)  # fmt: skip


def rows(book: Any, assignments: list[str], students: list[str]) -> list[dict[str, object]]:
    """One row per student and assignment of a gradebook that is settled, for CSV and tables."""
    table: list[dict[str, object]] = []
    for assignment in book.assignments:
        if assignments and assignment.name not in assignments:
            continue
        for student in book.students:
            if students and student.id not in students:
                continue
            table.append(_row(book, assignment, student))
    return table


def _row(book: Any, assignment: Any, student: Any) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(COLUMNS, "")
    row |= {
        "assignment": assignment.name,
        "student": student.id,
        "last_name": student.last_name or "",
        "first_name": student.first_name or "",
        "max_score": assignment.max_score,
        "raw_score": 0.0,
        "late_penalty": 0.0,
        "score": 0.0,
    }
    try:
        submission = book.find_submission(assignment.name, student.id)
    except MissingEntry:
        return row
    if not _is_graded(submission):  # a score of nothing would be taken for a zero
        ungraded = dict.fromkeys(("raw_score", "late_penalty", "score"), "")
        return row | ungraded | {"needs_manual_grade": "yes"}
    penalty = submission.late_submission_penalty or 0.0
    return row | {
        "submitted": "" if submission.timestamp is None else submission.timestamp.isoformat(),
        "late_seconds": int(submission.total_seconds_late),
        "raw_score": round(submission.score, 4),
        "late_penalty": round(penalty, 4),
        "score": round(max(0.0, submission.score - penalty), 4),
        "needs_manual_grade": "yes" if submission.needs_manual_grade else "no",
    }


def _is_graded(submission: Any) -> bool:
    """Whether every cell that the grader gives points for has some, or a person's."""
    return all(
        grade.auto_score is not None or grade.manual_score is not None
        for notebook in submission.notebooks
        for grade in notebook.grades
        if getattr(grade.cell, "cell_type", "") == "code"
    )


class SafeCsvExport(ExportPlugin):  # type: ignore[misc]
    """`nbgrader export`: grades as CSV, safe to open in a spreadsheet.

    Each row says what is missing from its grade, and what a person gave and wrote.
    """

    course: Course | None = None  # None: the one that nbgrader works in
    partial = False  # no score where a grade is unfinished

    def export(self, gradebook: Any) -> None:
        path = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", path)
        settle(self._course, [str(name) for name in self.assignment] or None)
        write_csv(path, COLUMNS, self.table(gradebook))

    @property
    def _course(self) -> Course:
        return self.course or Course.of_root(self.parent.coursedir.root)

    def table(self, gradebook: Any) -> list[dict[str, object]]:
        """The rows, with what is missing from each and what a person gave and wrote."""
        course = self._course
        table = rows(
            gradebook, [str(name) for name in self.assignment], [str(s) for s in self.student]
        )
        for row in table:
            self._complete(gradebook, course, row)
        return table

    def _complete(self, book: Any, course: Course, row: dict[str, object]) -> None:
        name, student = str(row["assignment"]), str(row["student"])
        if name not in plans.known(course):
            return
        if student in excused.of_assignment(course, name):  # neither for nor against: no maximum
            blank = ("raw_score", "late_penalty", "score", "max_score", "needs_manual_grade")
            row |= {**dict.fromkeys(blank, ""), "excused": "yes"}
            return
        plan = plans.load(name, course)
        outcome = recorded(book, course, plan, student)
        if outcome is None:
            return
        lacks = outcome.missing(plan)
        if lacks and self.partial:
            row |= dict.fromkeys(("raw_score", "late_penalty", "score"), "")
        elif lacks:
            self.log.warning("%s, %s is unfinished: %s", name, student, "; ".join(lacks))
        account = outcome.account(plan)
        row |= {
            "missing": "; ".join(lacks),
            "by_hand": "; ".join(points.hand_points(account)),
            "comments": "\n".join(points.hand_comments(account)),
        }


def export(course: Course, assignment: str, path: Path, *, partial: bool = False) -> Path:
    """nbgrader's export through our plugin."""
    plugin = SafeCsvExport(to=str(path), assignment=[assignment])
    plugin.course, plugin.partial = course, partial
    with quiet(), open_gradebook(course) as book:
        plugin.export(book)
    return path


def finished(course: Course, assignments: Sequence[str]) -> list[dict[str, object]]:
    """A row for each student and assignment; no score where a grade is unfinished."""
    settle(course, assignments)
    plugin = SafeCsvExport(assignment=list(assignments))
    plugin.course, plugin.partial = course, True
    with quiet(), open_gradebook(course) as book:
        return plugin.table(book)
