"""What a person decided (`course.decisions`), laid over the cells of nbgrader's gradebook.

    the formgrader   the decision   the cell   what is noted
    20               30 points      30         beneath it: 20
    25, typed since  30 points      30         beneath it: 25
                     taken back     25         nothing

So a decision goes before points of the formgrader, whichever came first, and loses none of them.
Each grading lifts the decisions, writes the suite's points, and lays them again: a decision
outlives a regrade, and a gradebook that is made anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from autograder.course import applied_tables
from autograder.course.assignment import Assignment
from autograder.course.decisions import Decision, standing

__all__ = ["lay", "lift"]


def lift(book: Any, plan: Assignment, submission: Any) -> None:
    """Give cells what lies beneath the decisions on them; the caller commits.

    What somebody has typed into the formgrader since then stays.
    """
    notes = applied_tables.read(book)
    for grade in _grades(submission).values():
        key = _key(plan, grade, submission)
        if key not in notes:
            continue
        laid, (*beneath, waits) = json.loads(notes[key])
        if [grade.manual_score, grade.extra_credit] == laid:
            grade.manual_score, grade.extra_credit = beneath
            grade.needs_manual_grade = waits
        applied_tables.write(book, key, None)


def lay(book: Any, plan: Assignment, submission: Any, own: Iterable[Decision]) -> None:
    """Write a student's decisions over the cells, which are without any; the caller commits."""
    grades = _grades(submission)
    for part, points in standing(plan, own).items():
        grade = grades.get(_cell(plan, part))
        if grade is None:
            continue
        beneath = [grade.manual_score, grade.extra_credit, bool(grade.needs_manual_grade)]
        # A cell of an extra module is of no points: what it earns is extra credit.
        laid = [0.0, points] if plan.is_extra(part) else [points, None]
        grade.manual_score, grade.extra_credit = laid
        grade.needs_manual_grade = False
        applied_tables.write(book, _key(plan, grade, submission), json.dumps([laid, beneath]))


def _grades(submission: Any) -> dict[str, Any]:
    return {grade.name: grade for notebook in submission.notebooks for grade in notebook.grades}


def _key(plan: Assignment, grade: Any, submission: Any) -> tuple[str, str]:
    return f"{plan.name}/{grade.name}/decided", str(submission.student_id)


def _cell(plan: Assignment, part: str) -> str:
    is_module = any(module.name == part for module in plan.modules)
    return f"check_{part}" if is_module else part
