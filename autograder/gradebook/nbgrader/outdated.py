"""What nbgrader's commands must make anew, though it is there: they pass over what is there.

As one begins, it removes what a run that was killed has left in ``build/autograded`` or
``build/feedback``; results of what was handed in before; pages whose grade has changed since (a
regrade, points by hand, an extension). A folder with files of somebody else is moved to
``build/kept``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import weakref
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbgrader.converters.base import NbGraderException

from autograder import storage
from autograder.course import assignment as plans
from autograder.course import database, decisions, excused, late
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.gradebook.nbgrader import grades, grading_record
from autograder.gradebook.nbgrader.results import MARK
from ringside import output_folder


def clear_unfinished(exporter: Any, why_not: Callable[[Path], str]) -> None:
    """Remove the folders that are to be made again, if nobody else runs; `why_not` says why.

    nbgrader passes over a folder that is there, also where a run that was killed has left it, or
    where what it was made of has changed since.
    """
    converter = exporter.parent
    root = Path(converter.coursedir.root)
    storage.private_folder(root / "build")
    lock = os.open(root / "build", os.O_RDONLY | os.O_CLOEXEC)
    weakref.finalize(exporter, os.close, lock)  # held while this run lasts
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # What another run is just making looks like what a killed one has left.
    except BlockingIOError:
        return
    except OSError:  # folders can't be locked there: then one run at a time is the rule
        pass
    for source in map(Path, converter.assignments):  # <student>/<assignment>
        folder = root / converter._format_dest(source.name, source.parent.name)
        try:
            why = why_not(folder) if folder.is_dir() else ""
        except (
            AssignmentError,
            database.GradebookError,
        ) as error:  # a table, or the gradebook
            converter.log.error(str(error))
            raise NbGraderException(str(error)) from error
        if why:
            _remove_outdated(folder, source, root / "build", why, converter.log)


def _remove_outdated(folder: Path, source: Path, build: Path, why: str, log: Any) -> None:
    """Remove a folder that nbgrader makes of `source`; with files of others, it is kept."""
    names = {f"{folder.name}.ipynb", f"{folder.name}.html"}
    for origin in (source, build / "source" / folder.name):  # nbgrader lays the supplied files over
        names.update(output_folder.contents(origin))
    if strangers := sorted(output_folder.contents(folder).keys() - names):
        backup = output_folder.numbered(build / "kept" / folder.relative_to(build))
        backup.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(backup)
        log.warning("%s held what nbgrader didn't write (%s): it is in %s now.",
                    folder, ", ".join(strangers), backup)  # fmt: skip
        return
    log.warning("%s: %s is made anew.", why, folder)
    shutil.rmtree(folder)


KILLED = "A run that was stopped has left only a part"


def _why_not_page(folder: Path) -> str:
    """Whether a feedback folder's page was written to its end."""
    path = folder / f"{folder.name}.html"
    whole = path.is_file() and path.read_bytes().rstrip().endswith(b"</html>")
    return "" if whole else KILLED


def why_not_result(folder: Path) -> str:
    """Whether an autograded folder's notebook was written whole, after the gradebook was."""
    try:
        content = json.loads((folder / f"{folder.name}.ipynb").read_bytes())
        return "" if "outcome" in content["metadata"][MARK] else KILLED
    except (OSError, ValueError, KeyError, TypeError):
        return KILLED


def why_another(course: Course, folder: Path) -> str:
    """Whether something else was handed in since a submission was autograded."""
    student, assignment = folder.parent.name, folder.name
    record = grading_record.read(course, assignment, student)
    notebook = course.submitted(student, assignment) / f"{assignment}.ipynb"
    same = record is None or record.submission in ("", grading_record.submission_hash(notebook))
    return "" if same else "Something else was handed in since"


class PagesNow:
    """Feedback pages, each beside the grade that it must show."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._known: dict[str, tuple[Assignment, dict[str, late.Late]]] = {}

    def why_not(self, folder: Path) -> str:
        """A sentence, where the page is none, or of an earlier grade."""
        if why := _why_not_page(folder):
            return why
        student, assignment = folder.parent.name, folder.name
        match = STAMP.search((folder / f"{assignment}.html").read_text(encoding="utf-8"))
        if assignment not in self._known:
            account = late.of_assignment(self.course, assignment)
            self._known[assignment] = (plans.load(assignment, self.course), account)
        plan, lateness = self._known[assignment]
        with database.open_gradebook(self.course) as book:
            now = grade_stamp(book, self.course, plan, student, lateness.get(student))
        return "" if match and match[1] == now else "The page is of an earlier grade"


STAMP = re.compile(r'<meta name="ringside-grade" content="([0-9a-f]+)">')


def grade_stamp(
    book: Any, course: Course, plan: Assignment, student: str, lateness: late.Late | None
) -> str:
    """A hash of all that a feedback page is made of: points, comments, lateness, results."""
    cells = grades.cell_marks(book, plan, student) or {}
    own_decisions = decisions.of_student(decisions.read(course, plan), student)
    made_of = {
        "cells": {name: asdict(cell) for name, cell in cells.items()},
        "late": lateness and asdict(lateness),
        "penalty": grades.late_penalty(book, plan.name, student),
        **({"decided": [decision.sentence for decision in own_decisions]} if own_decisions else {}),
        **({"excused": True} if student in excused.of_assignment(course, plan.name) else {}),
        "results": grading_record.file_hash(course.autograded(student, plan.name) / plan.notebook),
    }
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:32]
