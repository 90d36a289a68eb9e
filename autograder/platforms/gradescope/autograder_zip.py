"""The zip that Gradescope makes an autograder of.

    setup.sh         run once, when Gradescope builds the image: Python, the kit, PyTorch
    run_autograder   run for each submission
    kit/             the kit with one assignment (`autograder.platforms.contents`)

Format: gradescope-autograders.readthedocs.io, "Autograder Specifications".
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from autograder import scratch, storage
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.platforms import contents
from autograder.platforms.scripts import script
from autograder.platforms.settings import Settings
from ringside.output_folder import FolderError

__all__ = ["COMMAND", "make"]

COMMAND = "autograder platform gradescope"
RUNS = {"setup.sh": "setup.sh", "run_autograder": "run_autograder"}


def make(plan: Assignment, course: Course, path: Path, settings: Settings) -> Path:
    """Write the zip; one that this has made before is replaced.

    Raises:
        AssignmentError: the assignment isn't built.
        FolderError: something else has that name.
        StorageError: it can't be written.
    """
    if path.is_dir() or (path.exists() and not _is_ours(path)):
        raise FolderError(
            f"`{COMMAND}` did not make {path}: move it away, or name another file with --to."
        )
    packed = io.BytesIO()
    with scratch.fresh("gradescope-") as folder:
        (folder / "kit").mkdir()
        contents.fill(folder / "kit", plan, course, settings)
        for member, template in RUNS.items():
            (folder / member).write_text(script(template, plan), encoding="utf-8")
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(member for member in folder.rglob("*") if member.is_file()):
                inside = file.relative_to(folder).as_posix()
                info = zipfile.ZipInfo(inside)  # without a date: the same bytes for the same kit
                info.external_attr = (0o700 if inside in RUNS else 0o600) << 16
                archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)
            archive.comment = COMMAND.encode()
    storage.write(path, packed.getvalue(), mode=0o600)  # the hidden suite is in it
    return path


def _is_ours(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == COMMAND.encode()
    except (OSError, zipfile.BadZipFile):
        return False
