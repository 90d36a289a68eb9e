"""What Classroom 50 reads: a template repository, and an autograder for the course's own one.

    template/                        the students' tree, to be pushed as a template repository
    autograders/NAME/autograder.py   goes into the classroom's folder of the organization's
                     settings.json   repository `classroom50`: started once for each submission
                     runtime.json    for `gh teacher assignment add --runtime`

Format: github.com/foundation50/classroom50, wiki, "Advanced Autograding" (as of August 2026). The
autograder is published and a student owns the repository, so the tests are the public ones.
"""

from __future__ import annotations

import json
from pathlib import Path

from autograder import storage
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.platforms.github import TORCH_INDEX, in_repository
from autograder.platforms.scripts import TEMPLATES, needs_torch
from autograder.publish import bundle
from ringside import output_folder

__all__ = ["COMMAND", "make"]

COMMAND = "autograder platform classroom50"
PYTHON = "3.12"


def make(plan: Assignment, course: Course, folder: Path) -> Path:
    """Write both; a folder that this has made before is replaced.

    Raises:
        AssignmentError: the assignment has no public tests, or is a draft.
        BuildError: an assignment isn't built, or something hidden would be in the tree.
        FolderError: the folder holds something else.
        StorageError: it can't be written.
    """
    names = in_repository(plan, course)
    texts = {
        "autograder.py": (TEMPLATES / "classroom50.py").read_text(encoding="utf-8"),
        "settings.json": json.dumps(_settings(plan), indent=2) + "\n",
        "runtime.json": json.dumps({"runs-on": "ubuntu-latest", "python": PYTHON}) + "\n",
    }
    with (
        storage.making(folder.resolve().parent, otherwise="Or name another folder with --to."),
        output_folder.made_anew(folder, COMMAND, protected=(course.kit, course.root)) as fresh,
    ):
        bundle.make(course, fresh / "template", names=names, command=COMMAND)
        target = fresh / "autograders" / plan.name.replace("_", "-")  # a slug has no underscores
        target.mkdir(parents=True)
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
    return folder


def _settings(plan: Assignment) -> dict[str, object]:
    torch = needs_torch(plan)
    return {
        "assignment": plan.name,
        "extras": ["torch"] if torch else [],
        "environment": {"TORCH_INDEX": TORCH_INDEX} if torch else {},
        "points": {m.name: round(m.weight) for m in plan.modules if not m.extra},
    }
