"""A question of PrairieLearn's with its external grader.

    info.json        the image, the script that is started in it, its time
    question.html    what students read, where they upload, what they see of the tests
    tests/           grade.sh, and kit/: the kit with one assignment; students never get it

Format: docs.prairielearn.com, "External grading" and "pl-file-upload". The image brings Python and
the libraries; the kit comes with the question, so that both are of one version.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

from autograder import storage
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.platforms import contents
from autograder.platforms.scripts import script
from autograder.platforms.settings import Settings
from ringside import output_folder

__all__ = ["COMMAND", "make"]

COMMAND = "autograder platform prairielearn"
ENTRY = "grade.sh"
MOST_S = 600  # PrairieLearn's own limit
_NAMES = uuid.UUID("c1f7bd33-6b0f-4d61-9a4a-0f6c8d5d2a11")


def make(plan: Assignment, course: Course, folder: Path, settings: Settings, image: str) -> Path:
    """Write the question; one that this has made before is replaced.

    Raises:
        AssignmentError: the assignment isn't built.
        FolderError: the folder holds something else.
        StorageError: it can't be written.
    """
    roots = (course.kit, course.root)
    with (
        storage.making(folder.resolve().parent, otherwise="Or name another folder with --to."),
        output_folder.made_anew(folder, COMMAND, protected=roots) as fresh,
    ):
        fresh.chmod(0o700)  # the hidden suite is in it
        (fresh / "tests" / "kit").mkdir(parents=True)
        contents.fill(fresh / "tests" / "kit", plan, course, settings)
        (fresh / "tests" / ENTRY).write_text(script("grade.sh", plan), encoding="utf-8")
        os.chmod(fresh / "tests" / ENTRY, 0o700)
        limit_s = min(MOST_S, round(60 * settings.minutes))
        text = json.dumps(_info(plan, course, image, limit_s), indent=4)
        (fresh / "info.json").write_text(text + "\n", encoding="utf-8")
        files = [plan.notebook, *(module.filename for module in plan.modules), "run.json"]
        page = script("question.html", plan, files=", ".join(files))
        (fresh / "question.html").write_text(page, encoding="utf-8")
    return folder


def _info(plan: Assignment, course: Course, image: str, limit_s: int) -> dict[str, object]:
    return {
        # The same for the same assignment: with another one, PrairieLearn would see a new question.
        "uuid": str(uuid.uuid5(_NAMES, f"{course.root.resolve().name}/{plan.name}")),
        "title": plan.title,
        "topic": "Parallel deep learning",
        "type": "v3",
        "singleVariant": True,
        "gradingMethod": "External",
        "externalGradingOptions": {
            "enabled": True,
            "image": image,
            "entrypoint": f"/grade/tests/{ENTRY}",
            "timeout": limit_s,
            "enableNetworking": False,
        },
    }
