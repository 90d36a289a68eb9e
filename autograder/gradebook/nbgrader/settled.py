"""The gradebook as the course's lists have it now: all that reads a mark settles it first.

    course.toml, extensions, receipts   nbgrader's due dates, and its times of submissions
    decisions, teams                    points of cells, which nbgrader sums up
    lateness                            nbgrader's penalty, of the sum as it is then

So a mark never depends on which command came last: nbgrader computes the penalty only where it
autogrades, and knows nothing of what was given or moved since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Sequence
from typing import Any

from nbgrader.api import MissingEntry

from autograder.course import applied_tables, decisions, late, teams
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.course.database import open_gradebook
from autograder.gradebook.nbgrader import applied_decisions, partners

__all__ = ["settle"]


def settle(course: Course, assignments: Sequence[str] | None = None) -> None:
    """Bring the gradebook up to the course's lists; a course without one has nothing to settle.

    Args:
        assignments: whose decisions and teams are written; None: of all. Dates and lateness are
            those of the whole course, for grace days go from one assignment to the next.

    Raises:
        AssignmentError: a list is wrong; its line is named.
        GradebookError: the gradebook can't be read or written.
    """
    if not course.database.is_file():
        return
    all_names = plans.known(course)
    with open_gradebook(course) as book:
        names = [assignment.name for assignment in book.assignments if assignment.name in all_names]
        for name in names:
            if assignments is None or name in assignments:
                _settle_points(book, course, plans.load(name, course))
        late.tell_book(course, book)


def _settle_points(book: Any, course: Course, plan: Assignment) -> None:
    all_decisions = decisions.read(course, plan)
    together = teams.read(course, plan.name)
    noted = {
        who
        for what, who in applied_tables.read(book)
        if what.startswith(f"{plan.name}/") and what.endswith("/decided")
    }
    touched = {decision.student for decision in all_decisions} | noted
    closed = {decision.student for decision in all_decisions if decision.part == decisions.ALL}
    submissions = _submissions(book, plan, touched, closed)
    for submission in submissions:
        applied_decisions.lift(book, plan, submission)
    # While decisions are lifted: partners share what a person typed, and a decision covers it.
    partners.give(book, course, plan, together.values())
    for submission in submissions:
        own_decisions = decisions.of_student(all_decisions, str(submission.student_id))
        applied_decisions.lay(book, plan, submission, own_decisions)


def _submissions(
    book: Any, plan: Assignment, students: Iterable[str], closed: Container[str]
) -> list[Any]:
    """The students' submissions; of whom nothing could be collected, one that a person closed."""
    submissions = []
    for student in sorted(students):
        try:
            submissions.append(book.find_submission(plan.name, student))
        except MissingEntry:
            if student in closed:
                with contextlib.suppress(MissingEntry):  # a stranger
                    submissions.append(book.add_submission(plan.name, student))
    return submissions
