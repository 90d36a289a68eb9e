"""What the gradebook says of submissions: points by cell, who gave them, what is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from nbgrader.api import MissingEntry

from autograder.course import excused
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.database import open_gradebook
from autograder.grade.outcome import Outcome
from autograder.grade.points import CellMark
from autograder.gradebook.nbgrader import grading_record


def cell_scores(book: Any, assignment: str, student: str) -> dict[str, float]:
    """A submission's points by grade cell, extra credit included."""
    try:
        submission = book.find_submission(assignment, student)
    except MissingEntry:
        return {}
    return {
        grade.name: float(grade.score or 0.0)
        for notebook in submission.notebooks
        for grade in notebook.grades
    }


def cell_marks(book: Any, plan: Assignment, student: str) -> dict[str, CellMark] | None:
    """What the gradebook says of each part of a submission; None where it knows none.

    A module's points stand in the cell that checks it, and comments on it in its own cell.
    """
    try:
        submission = book.find_submission(plan.name, student)
    except MissingEntry:
        return None
    grades = {grade.name: grade for notebook in submission.notebooks for grade in notebook.grades}
    comments = {
        comment.name: str(comment.manual_comment or "").strip()
        for notebook in submission.notebooks
        for comment in notebook.comments
    }
    extra = {module.name for module in plan.modules if module.extra}
    cells = {module.name: f"check_{module.name}" for module in plan.modules}
    cells |= {run.name: run.name for run in plan.runs}
    cells |= {paragraph.name: paragraph.name for paragraph in plan.paragraphs}
    return {
        name: _cell_mark(grades[cell], comments.get(name, ""), own_extra=name in extra)
        for name, cell in cells.items()
        if cell in grades
    }


def in_gradebook(course: Course, plan: Assignment, students: Iterable[str]) -> list[str]:
    """Those of the students whose submission the gradebook has."""
    if not course.database.is_file():
        return []
    with open_gradebook(course) as book:
        there = {
            str(submission.student_id) for submission in book.assignment_submissions(plan.name)
        }
    return [student for student in students if student in there]


def late_penalty(book: Any, assignment: str, student: str) -> float:
    """What lateness takes off, in a gradebook that is settled."""
    try:
        penalty = book.find_submission(assignment, student).late_submission_penalty
    except MissingEntry:
        return 0.0
    return round(float(penalty or 0.0), 4)


def _cell_mark(grade: Any, comment: str, *, own_extra: bool) -> CellMark:
    has_points = grade.manual_score is not None or grade.auto_score is not None
    return CellMark(
        points=round(float(grade.score), 4) if has_points else None,
        by_hand=grade.manual_score is not None or bool(grade.extra_credit and not own_extra),
        waits=bool(grade.needs_manual_grade),
        comment=comment,
    )


def recorded(
    book: Any, course: Course, plan: Assignment, student: str, outcome: Outcome | None = None
) -> Outcome | None:
    """A submission with what the gradebook says of it; None where it knows none.

    Args:
        outcome: what the suites say now; None for what was recorded with the points.
    """
    cells = cell_marks(book, plan, student)
    if cells is None:
        return None
    if outcome is None:
        record = grading_record.read(course, plan.name, student)
        outcome = Outcome(student, "graded") if record is None else record.outcome
    free = student in excused.of_assignment(course, plan.name)
    return dataclasses.replace(outcome, cells=cells, excused=free)


def with_marks(course: Course, plan: Assignment, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with what the gradebook says of them, where it knows them."""
    with open_gradebook(course) as book:
        return [
            recorded(book, course, plan, outcome.student, outcome) or outcome
            for outcome in outcomes
        ]


def with_marks_by_hand(
    course: Course, plan: Assignment, outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """The outcomes with what people gave: other points are those of the suites as they are now."""
    if not course.database.is_file():
        return list(outcomes)
    texts = {paragraph.name for paragraph in plan.paragraphs}
    return [
        dataclasses.replace(
            outcome,
            cells={n: c for n, c in (outcome.cells or {}).items() if c.by_hand or n in texts},
        )
        for outcome in with_marks(course, plan, outcomes)
    ]


def ask_for_a_person(course: Course, assignment: str, student: str) -> None:
    """Mark the cells that have no points yet as waiting: they must not pass for zeros."""
    with open_gradebook(course) as book:
        for notebook in book.find_submission(assignment, student).notebooks:
            for grade in notebook.grades:
                if grade.auto_score is None and grade.manual_score is None:
                    grade.needs_manual_grade = True
        book.db.commit()


def unfinished(course: Course, plan: Assignment) -> dict[str, list[str]]:
    """What each student's grade lacks; nobody whose grade is complete."""
    gaps = {}
    with open_gradebook(course) as book:
        for student in book.students:
            outcome = recorded(book, course, plan, student.id)
            if outcome is not None and (lacks := outcome.missing(plan)):
                gaps[str(student.id)] = lacks
    return gaps
