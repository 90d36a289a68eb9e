"""A repository for GitHub: the students' tree, and what runs its public tests on each push.

    .github/workflows/NAME.yml    a workflow of GitHub Actions

A student owns the repository and reads all that is in it, and what its workflow prints. So no
hidden suite comes near it: the tests are the public ones, and a score of theirs is no grade.
"""

from __future__ import annotations

from pathlib import Path

from autograder.authoring import bundle
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.platforms.scripts import script

__all__ = ["COMMAND", "TORCH_INDEX", "make", "needs_public_tests"]

COMMAND = "autograder platform github"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's build for CPUs


def make(plan: Assignment, course: Course, folder: Path) -> Path:
    """Write the repository's files; a folder that this has made before is replaced.

    Raises:
        AssignmentError: the assignment has no public tests.
        BuildError: an assignment isn't built, or something hidden would be in the tree.
        FolderError: the folder holds something else.
        StorageError: it can't be written.
    """
    needs_public_tests(plan)
    workflow = script("workflow.yml", plan, torch_index=TORCH_INDEX)
    also = {f".github/workflows/{plan.name}.yml": workflow}
    return bundle.make(course, folder, also=also, command=COMMAND)


def needs_public_tests(plan: Assignment) -> None:
    """Refuse an assignment of which nothing could run on a push.

    Raises:
        AssignmentError: it has no public tests.
    """
    if plan.public_tests is None:
        raise AssignmentError(f"{plan.name} has no public tests: nothing could run on a push.")
