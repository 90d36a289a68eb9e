"""What a person decided (`course.decisions`), written into nbgrader's gradebook as by hand.

Each `nbgrader autograde` does it, so a decision outlives a regrade, and a gradebook that is made
anew. It goes before points that stand in the formgrader. A decision that is taken back takes its
points out of the gradebook, unless somebody has written others there since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrader.api import MissingEntry

from autograder.course import assignment as plans
from autograder.course import decisions
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.decisions import Decision
from autograder.grade.outcome import Outcome, clamp
from autograder.gradebook.database import open_gradebook
from autograder.nbgrader import graded
from autograder.submission import late

__all__ = ["apply", "apply_all", "apply_to"]


def apply_all(course: Course, assignment: str) -> None:
    """Write all decisions on an assignment into the gradebook, where it has the submissions."""
    plan = plans.load(assignment, course)
    students = {each.student for each in decisions.read(course, plan)}
    apply_to(course, plan, sorted(students))


def apply_to(course: Course, plan: Assignment, students: Sequence[str]) -> list[str]:
    """Write the decisions on these students; gives those whose submission the gradebook has."""
    if not students or not course.database.is_file():
        return []
    there = []
    with open_gradebook(course) as book:
        for student in students:
            try:
                submission = book.find_submission(plan.name, student)
            except MissingEntry:
                continue
            there.append(student)
            if apply(book, course, plan, _recorded(course, plan, student)):
                book.db.commit()
                book.db.expire_all()  # the sum of its cells is another one
                account = late.account(course, student, dates=late.calendar(course, book))
                percent = account[plan.name].percent if plan.name in account else 0.0
                for notebook in submission.notebooks:
                    notebook.late_submission_penalty = notebook.score * percent / 100
                book.db.commit()
    return there


def apply(book: Any, course: Course, plan: Assignment, outcome: Outcome) -> bool:
    """Write one student's decisions into cells that the gradebook has; the caller commits.

    Returns:
        Whether a cell is another one now.
    """
    found = decisions.of_student(decisions.read(course, plan), outcome.student)
    if not found:
        return False
    submission = book.find_submission(plan.name, outcome.student)
    grades = {grade.name: grade for each in submission.notebooks for grade in each.grades}
    changed = False
    for part, decision in decisions.newest(found).items():
        grade = grades.get(_cell(plan, part))
        if grade is None:
            continue
        before = (grade.manual_score, grade.extra_credit, grade.needs_manual_grade)
        if decision.points is not None:
            _give(plan, grade, part, decision.points)
        else:
            _take_back(plan, grade, part, found, outcome)
        changed |= before != (grade.manual_score, grade.extra_credit, grade.needs_manual_grade)
    return changed


def _cell(plan: Assignment, part: str) -> str:
    is_module = any(module.name == part for module in plan.modules)
    return f"check_{part}" if is_module else part


def _is_extra(plan: Assignment, part: str) -> bool:
    return any(module.name == part and module.extra for module in plan.modules)


def _give(plan: Assignment, grade: Any, part: str, points: float) -> None:
    """A cell of an extra module is of no points: what it earns is extra credit."""
    extra = _is_extra(plan, part)
    grade.manual_score, grade.extra_credit = (0.0, points) if extra else (points, None)
    grade.needs_manual_grade = False


def _take_back(
    plan: Assignment, grade: Any, part: str, found: Sequence[Decision], outcome: Outcome
) -> None:
    """Give a cell its own points again, where it has those of an earlier decision."""
    given = [each.points for each in found if each.part == part and each.points is not None]
    if not given or grade.manual_score is None:
        return
    extra = _is_extra(plan, part)
    if given[-1] != (grade.extra_credit if extra else grade.manual_score):
        return
    grade.manual_score = None
    if extra:
        module = plan.module(part)
        grade.extra_credit = clamp(outcome.points(module), module.weight)
    grade.needs_manual_grade = grade.auto_score is None


def _recorded(course: Course, plan: Assignment, student: str) -> Outcome:
    """What the suites gave, as it was recorded with the gradebook's points."""
    record = graded.read(course, plan.name, student)
    parts = record.parts if record else {}
    modules = {
        module.name: {"score": 100 * parts[module.name].points / module.weight}
        for module in plan.modules
        if module.name in parts and module.weight
    }
    return Outcome(student, "graded", result={"modules": modules})
