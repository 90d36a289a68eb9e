"""A repository for GitHub: the students' tree, and what runs its public tests on each push.

    .github/workflows/NAME.yml    a workflow of GitHub Actions

A student owns the repository and reads all that is in it, and what its workflow prints. So no
hidden suite comes near it: the tests are the public ones, and a score of theirs is no grade.
"""

from __future__ import annotations

from pathlib import Path

from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.platforms.scripts import script
from autograder.publish import bundle
from ringside.course.term import shown

__all__ = ["COMMAND", "TORCH_INDEX", "in_repository", "make", "release_warning"]

COMMAND = "autograder platform github"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's build for CPUs


def make(plan: Assignment, course: Course, folder: Path) -> Path:
    """Write the repository's files; a folder that this has made before is replaced.

    It holds the assignments that are handed out now, and the one that it is made for.

    Raises:
        AssignmentError: the assignment has no public tests, or is a draft.
        BuildError: an assignment isn't built, or something hidden would be in the tree.
        FolderError: the folder holds something else.
        StorageError: it can't be written.
    """
    names = in_repository(plan, course)
    workflow = script("workflow.yml", plan, torch_index=TORCH_INDEX)
    also = {f".github/workflows/{plan.name}.yml": workflow}
    return bundle.make(course, folder, names=names, also=also, command=COMMAND)


def in_repository(plan: Assignment, course: Course) -> list[str]:
    """The assignments of a repository made for this one: it, and those that are handed out now.

    Raises:
        AssignmentError: it has no tests, so nothing could run on a push, or is a draft.
    """
    if not plan.has_tests:
        raise AssignmentError(f"{plan.name} has no tests: nothing could run on a push.")
    table = bundle.listed(course)
    if plan.name in table.unlisted:
        raise AssignmentError(
            f"{plan.name} is a draft: {table.source} doesn't hand it out. List it below [released] "
            "of course.toml first (a date in the future will do), or write handed_out = true into "
            "its assignment.toml."
        )
    return sorted({plan.name, *table.given})


def release_warning(plan: Assignment, course: Course) -> str:
    """What to say of a repository that is made before its assignment is released; else nothing."""
    later = bundle.listed(course).later
    if plan.name not in later:
        return ""
    moment = later[plan.name]
    when = f"is released {shown(moment)}" if moment else "has no release date yet"
    return f"{plan.name} {when}: keep the repository private until then."
