"""Grade where there is no room, or no right to write; the report goes to stdout as JSON.

    unshare --mount python full_disk.py FOLDER

In a mount namespace of its own, on file systems that are too small: the store, the gradebook, and
the folder for temporary files; then on a store that is mounted read-only.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from autograder import scratch
from autograder.commands import cli
from autograder.course import assignment as plans
from autograder.course import database, nbgrader_steps
from autograder.course.course import Course
from autograder.grade import class_grading, grading, pipeline
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.nbgrader import csv_export
from tests.autograder.conftest import NAME, toy_grader


def staging_grader(assignment: str, sources: pipeline.Sources, module: str) -> ModuleResult:
    """The toy's result, with the module written where its suite would read it."""
    with grading.staged(plans.load(assignment), sources):
        return toy_grader(assignment, sources, module)


Course.results = property(lambda self: self.build / "results")  # type: ignore[method-assign]
pipeline.suite_grader = lambda course, **_: staging_grader  # type: ignore[assignment]
pipeline.PAUSES_S = (0.0,)  # type: ignore[assignment]
class_grading.best_tier = lambda **_: "none"


@contextlib.contextmanager
def small(folder: Path, room: int = 0, *, read_only: bool = False) -> Iterator[None]:
    """A file system of 64 KiB and so much more, and all but that full; or one only to be read."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={(64 << 10) + room}{',ro' if read_only else ''}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "ringside-test", str(folder)]
    subprocess.run(mount, check=True)
    try:
        if not read_only:
            with contextlib.suppress(OSError), (folder / "ballast").open("wb", 0) as ballast:
                while ballast.tell() < 64 << 10:
                    ballast.write(bytes(4096))
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def grade(folder: Path) -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(["grade", NAME, str(folder), "--jobs", "1"])
    return {"status": status, "said": out.getvalue()}


def grade_and_leave(folder: Path) -> dict[str, Any]:
    try:
        return grade(folder)
    finally:
        scratch.leave()  # what is open can't be unmounted


def main(folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    course, hand_in = Course.here(), folder / "ada"
    found: dict[str, Any] = {}

    def scene(name: str, place: Path, room: int, act: Callable[[], Any], **options: bool) -> None:
        with small(place, room, **options):
            found[name] = act()

    scene("store", course.results, 8192, lambda: grade(hand_in))
    scene("read-only store", course.results, 0, lambda: grade(hand_in), read_only=True)
    temporary = folder / "temporary"
    temporary.mkdir()
    scratch.leave()
    tempfile.tempdir = str(temporary)
    scene("temporary files", temporary, 0, lambda: grade_and_leave(hand_in))
    found["again"] = grade(hand_in)

    def autograde() -> str:
        try:
            nbgrader_steps.autograde(course, NAME)
        except database.GradebookError as error:
            return str(error)
        return ""

    graded = course.build / "graded"
    scene("records", graded, 0, autograde)
    content = course.database.read_bytes()
    os.rename(course.build, folder / "elsewhere")
    with small(course.build, len(content) + (8 << 10)):
        subprocess.run(["cp", "-r", f"{folder}/elsewhere/.", str(course.build)], check=False)
        found["gradebook"] = autograde()
    os.rmdir(course.build)
    os.rename(folder / "elsewhere", course.build)
    found["gradebook again"] = autograde()
    found["left"] = [str(path) for path in course.root.rglob(".*.tmp")]
    with database.open_gradebook(course) as book:
        found["scores"] = {r["student"]: r["raw_score"] for r in csv_export.rows(book, [NAME], [])}
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
