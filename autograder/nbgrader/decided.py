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
from autograder.course import decisions, teams
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.decisions import Decision
from autograder.grade.outcome import Outcome, clamp
from autograder.gradebook.database import open_gradebook
from autograder.nbgrader import graded
from autograder.submission import late

__all__ = ["apply", "apply_all", "apply_to", "give_to_partners"]


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
                _charge_lateness(book, course, plan, submission)
    return there


def give_to_partners(course: Course, assignment: str) -> None:
    """What a person gave one member of a team for a text or a run, for the others' same one.

    Only cells that wait for a person take it, so whoever was given other points keeps them.
    """
    found = teams.read(course, assignment)
    if not found or not course.database.is_file():
        return
    plan = plans.load(assignment, course)
    names = {run.name for run in plan.runs} | {text.name for text in plan.paragraphs}
    with open_gradebook(course) as book:
        for team in found.values():
            works: dict[str, list[Any]] = {}
            for member in team.members:
                try:
                    submission = book.find_submission(plan.name, member)
                except MissingEntry:
                    continue
                notebook = course.submitted(member, plan.name) / plan.notebook
                works.setdefault(graded.submission_hash(notebook), []).append(submission)
            for same in works.values():
                _give_to_same(book, course, plan, same, names)


def _give_to_same(
    book: Any, course: Course, plan: Assignment, same: Sequence[Any], names: set[str]
) -> None:
    cells = [_cells(submission) for submission in same]
    changed = set()
    for name in names & {name for each in cells for name in each}:
        grades = [each[name] for each in cells if name in each]
        given = [g for g, _ in grades if g.manual_score is not None and not g.needs_manual_grade]
        if len({grade.manual_score for grade in given}) != 1:
            continue
        words = next((c.manual_comment for g, c in grades if g is given[0] and c), None)
        for at, (grade, comment) in enumerate(grades):
            if grade.manual_score is None and grade.needs_manual_grade:
                grade.manual_score, grade.needs_manual_grade = given[0].manual_score, False
                if comment is not None and not comment.manual_comment:
                    comment.manual_comment = words
                changed.add(at)
    for at in changed:
        _charge_lateness(book, course, plan, same[at])


def _cells(submission: Any) -> dict[str, tuple[Any, Any]]:
    """Each grade cell with what a person wrote about it, if it has a place for that."""
    comments = {each.name: each for nb in submission.notebooks for each in nb.comments}
    return {g.name: (g, comments.get(g.name)) for nb in submission.notebooks for g in nb.grades}


def _charge_lateness(book: Any, course: Course, plan: Assignment, submission: Any) -> None:
    """Take off what lateness costs of the score as it is now, as autograde does."""
    book.db.commit()
    book.db.expire_all()  # the sum of its cells is another one
    student = str(submission.student_id)
    account = late.account(course, student, dates=late.calendar(course, book))
    percent = account[plan.name].percent if plan.name in account else 0.0
    for notebook in submission.notebooks:
        notebook.late_submission_penalty = notebook.score * percent / 100
    book.db.commit()


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
