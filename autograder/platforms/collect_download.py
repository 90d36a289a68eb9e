"""``autograder collect ASSIGNMENT DOWNLOAD``: a platform's download, put where nbgrader looks.

Then `nbgrader autograde`, the formgrader's texts by hand, feedback and `autograder regrade` work
as after `nbgrader collect`. Students are called as the platform knows them; see `downloads`.
"""

from __future__ import annotations

from collections.abc import Sequence

from autograder.collect import submitted_tree
from autograder.collect.submissions import Submission
from autograder.course import database
from autograder.course.assignment import Assignment
from autograder.course.course import Course

__all__ = ["collect"]


def collect(plan: Assignment, submissions: Sequence[Submission], course: Course) -> dict[str, int]:
    """Put submissions into nbgrader's tree; those of which nothing could be read are left out.

    Returns:
        How many are "new", "as before" and "replaced".
    """
    counts = dict.fromkeys(("new", "as before", "replaced"), 0)
    for submission in submissions:
        if not submission.rejected:
            counts[submitted_tree.put(plan, submission, course)] += 1
    if course.database.is_file():
        _name_students(course, submissions)
    return counts


def first_and_last(name: str) -> tuple[str, str]:
    """A name as platforms write it, first and last name apart.

    Where nothing says which is which the last word is the last name, with the small words before
    it; one word alone sorts as a last name.

    >>> first_and_last("Adeyemi, Ada Grace"), first_and_last("Zoë von der Au")
    (('Ada Grace', 'Adeyemi'), ('Zoë', 'von der Au'))
    >>> first_and_last("李明")
    ('', '李明')
    """
    last, comma, first = name.partition(",")
    if comma:
        return first.strip(), last.strip()
    words = name.split()
    at = max(len(words) - 1, 0)
    while at > 1 and words[at - 1].islower():
        at -= 1
    return " ".join(words[:at]), " ".join(words[at:])


def _name_students(course: Course, submissions: Sequence[Submission]) -> None:
    """Tell the gradebook the names and addresses that it lacks and the platform knows."""
    with database.open_gradebook(course) as book:
        for submission in submissions:
            if not (submission.name or submission.email):
                continue
            student = book.update_or_create_student(submission.student)
            if submission.name and not (student.first_name or student.last_name):
                student.first_name, student.last_name = first_and_last(submission.name)
            if submission.email and not student.email:
                student.email = submission.email
        book.db.commit()
