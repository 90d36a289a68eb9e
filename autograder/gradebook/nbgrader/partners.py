"""What a person gave one member of a team for a text or a run, for the others' same one.

ada 4, bob and cy nothing       bob and cy have 4, noted as ada's
ada's is changed to 3           bob and cy have 3
bob is given 1                  ada 3, bob 1: nobody knows which is cy's, so cy's waits
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nbgrader.api import MissingEntry

from autograder.course import applied_tables
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.teams import Team
from autograder.gradebook.nbgrader import grading_record

__all__ = ["give"]


def give(book: Any, course: Course, plan: Assignment, teams: Iterable[Team]) -> None:
    """Give members of teams the points that a person gave a partner; the caller commits.

    Whoever has points of their own keeps them.
    """
    names = {run.name for run in plan.runs} | {text.name for text in plan.paragraphs}
    for team in teams:
        works: dict[str, list[Any]] = {}
        for member in team.members:
            try:
                submission = book.find_submission(plan.name, member)
            except MissingEntry:
                continue
            notebook = course.submitted(member, plan.name) / plan.notebook
            works.setdefault(grading_record.submission_hash(notebook), []).append(submission)
        for same in works.values():
            cells = [(str(work.student_id), _cells(work)) for work in same]
            for name in sorted(names):
                _give(book, plan, name, {who: row[name] for who, row in cells if name in row})


def _give(book: Any, plan: Assignment, name: str, cells: dict[str, tuple[Any, Any]]) -> None:
    """One cell of all who have the same work: (grade, comment) by student."""
    notes = applied_tables.read(book)
    keys = {who: (f"{plan.name}/{name}/partner", who) for who in cells}
    copies = {
        who
        for who, (grade, _) in cells.items()
        if keys[who] in notes and notes[keys[who]] == f"{grade.manual_score}"
    }
    originals = [
        (grade, comment)
        for who, (grade, comment) in cells.items()
        if who not in copies and grade.manual_score is not None and not grade.needs_manual_grade
    ]
    points = (
        originals[0][0].manual_score
        if len({grade.manual_score for grade, _ in originals}) == 1
        else None
    )
    comments: Sequence[str] = [
        c.manual_comment for _, c in originals if c is not None and c.manual_comment
    ]
    for who, (grade, comment) in cells.items():
        free = who in copies or (grade.manual_score is None and grade.needs_manual_grade)
        if not free or grade.manual_score == points:
            continue
        grade.manual_score = points
        grade.needs_manual_grade = points is None and grade.auto_score is None
        if comment is not None and comments and (who in copies or not comment.manual_comment):
            comment.manual_comment = comments[0]
        applied_tables.write(book, keys[who], None if points is None else f"{points}")


def _cells(submission: Any) -> dict[str, tuple[Any, Any]]:
    """Each grade cell with what a person wrote about it, if it has a place for that."""
    comments = {comment.name: comment for nb in submission.notebooks for comment in nb.comments}
    return {g.name: (g, comments.get(g.name)) for nb in submission.notebooks for g in nb.grades}
