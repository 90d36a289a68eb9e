"""``autograder collect ASSIGNMENT DOWNLOAD``: a platform's download, put where nbgrader looks.

Then `nbgrader autograde`, the formgrader's texts by hand, feedback and `autograder regrade` work
as after `nbgrader collect`. Students are called as the platform knows them; see `downloads`.
"""

from __future__ import annotations

from collections.abc import Sequence

from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.gradebook import database
from autograder.submission import tree
from autograder.submission.finding import Submission

__all__ = ["collect"]


def collect(plan: Assignment, submissions: Sequence[Submission], course: Course) -> dict[str, int]:
    """Put submissions into nbgrader's tree; those of which nothing could be read are left out.

    Returns:
        How many are "new", "as before" and "replaced".
    """
    counts = dict.fromkeys(("new", "as before", "replaced"), 0)
    for submission in submissions:
        if not submission.rejected:
            counts[tree.put(plan, submission, course)] += 1
    if course.database.is_file():
        _name_students(course, submissions)
    return counts


def _name_students(course: Course, submissions: Sequence[Submission]) -> None:
    """Tell the gradebook the names and addresses that it lacks and the platform knows."""
    with database.open_gradebook(course) as book:
        for each in submissions:
            if not (each.name or each.email):
                continue
            student = book.update_or_create_student(each.student)
            if each.name and not (student.first_name or student.last_name):
                student.first_name = each.name
            if each.email and not student.email:
                student.email = each.email
        book.db.commit()
