"""A repository for GitHub: the students' tree, and what runs its public tests on each push.

    .github/workflows/NAME.yml            a workflow of GitHub Actions
            classroom/autograding.json    the same tests in GitHub Classroom's form

A student owns the repository and reads all that is in it, and what its workflow prints. So no
hidden suite comes near it: the tests are the public ones, and a score of theirs is no grade.
"""

from __future__ import annotations

import json
from pathlib import Path

from autograder.authoring import bundle
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.platforms.scripts import needs_torch, script
from ringside.term import shown

__all__ = ["COMMAND", "early", "make"]

COMMAND = "autograder platform github"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"  # PyTorch's build for CPUs
MINUTES = 10


def make(plan: Assignment, course: Course, folder: Path) -> Path:
    """Write the repository's files; a folder that this has made before is replaced.

    It holds the assignments that are handed out now, and the one that it is made for.

    Raises:
        AssignmentError: the assignment has no public tests, or is a draft.
        BuildError: an assignment isn't built, or something hidden would be in the tree.
        FolderError: the folder holds something else.
        StorageError: it can't be written.
    """
    if plan.public_tests is None:
        raise AssignmentError(f"{plan.name} has no public tests: nothing could run on a push.")
    found = bundle.listed(course)
    if plan.name in found.unlisted:
        raise AssignmentError(
            f"{plan.name} is a draft: {found.source} doesn't list it. Add it there first; a date "
            "in the future will do."
        )
    also = {
        f".github/workflows/{plan.name}.yml": script("workflow.yml", plan, torch_index=TORCH_INDEX),
        ".github/classroom/autograding.json": json.dumps(autograding(plan), indent=2) + "\n",
    }
    names = sorted({plan.name, *found.given})
    return bundle.make(course, folder, names=names, also=also, command=COMMAND)


def early(plan: Assignment, course: Course) -> str:
    """What to say of a repository that is made before its assignment is released; else nothing."""
    later = bundle.listed(course).later
    if plan.name not in later:
        return ""
    moment = later[plan.name]
    when = f"is released {shown(moment)}" if moment else "has no release date yet"
    return f"{plan.name} {when}: keep the repository private until then."


def autograding(plan: Assignment) -> dict[str, object]:
    """A test for each module, in GitHub Classroom's form: passed or not, its weight in points."""
    install = "python install.py"
    if needs_torch(plan):
        install = f"TORCH_INDEX={TORCH_INDEX} {install} torch"
    return {
        "tests": [
            {
                "name": f"{module.name}: {module.title}",
                "setup": install,  # a second time, it finds all there
                "run": f"cd assignments/{plan.name} && ringside check {module.name}",
                "input": "",
                "output": "",
                "comparison": "included",
                "timeout": MINUTES,
                "points": round(module.weight),
            }
            for module in plan.modules
            if not module.extra
        ]
    }
