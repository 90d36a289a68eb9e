"""Sources that a class is compared with: earlier years' submissions, solutions from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.collect import preparation, submissions
from autograder.collect.quarantine import Rejected
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.terminal import say

__all__ = ["modules"]


def modules(plan: Assignment, folders: Sequence[Path], course: Course) -> dict[str, dict[str, str]]:
    """What was written in some folders, as author -> module -> source; nothing of it is run.

    An author is named after the folder, too: ``(2025: ada)``. What can't be read is told and left.

    Raises:
        PathError: a folder isn't there, or holds no submission.
    """
    sources = {}
    for folder in folders:
        for submission in submissions.find(plan, [folder]):
            author = f"({folder.resolve().name}: {submission.student})"
            try:
                rebuilt = preparation.prepare(plan, submission, course)
            except Rejected as error:
                say(f"{submission.path} is compared with nothing: {error}")
                continue
            sources[author] = {
                name: text
                for name, text in rebuilt.modules.items()
                if name not in rebuilt.untouched
            }
    return sources
