"""nbgrader's own steps: its release, autograde, feedback and settings.

nbgrader is used as a library, in one process: starting its command line costs two seconds a
time. What runs is the same as its commands run, with the same ``nbgrader_config.py``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log, temp_attrs
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.course.course import CONFIG, Course
from autograder.course.database import GradebookError, check, refused
from autograder.storage import private_folder


def configuration(course: Course) -> Config:
    """The course's nbgrader settings, with absolute folders."""
    folder = course.root if (course.root / CONFIG).is_file() else course.kit
    config = PyFileConfigLoader(CONFIG, path=str(folder)).load_config()
    config.CourseDirectory.update(course.nbgrader_folders)
    return config


def _call(action: Callable[[], dict[str, Any]]) -> str:
    """Run one nbgrader step quietly; its log is returned, or raised where it failed."""
    answer = action()
    log = str(answer.get("log") or "")
    if not answer["success"]:
        message = (log + "\n" + str(answer.get("error") or "")).strip()
        # nbgrader says of each fault of its database that it wants an upgrade.
        for why in ("database is locked", "database or disk is full", "readonly database"):
            if f"OperationalError) {why}" in message or f"write a {why}" in message:
                raise refused("The gradebook", why)
        raise GradebookError(message)
    return log


@contextmanager
def quiet() -> Iterator[None]:
    """Keep nbgrader's log off the terminal; `capture_log` still hears it."""
    logger = logging.getLogger("traitlets")
    before, propagate = list(logger.handlers), logger.propagate
    logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before, propagate


def _directory(course: Course, **changes: Any) -> tuple[Config, CourseDirectory]:
    config = configuration(course)
    for name, value in changes.items():
        setattr(config.CourseDirectory, name, value)
    return config, CourseDirectory(config=config)


def generate_release(assignment: str, course: Course, scratch: Path) -> Path:
    """nbgrader's release of `scratch`/source/`assignment`, made in `scratch`."""
    config, coursedir = _directory(
        course,
        root=str(scratch),
        source_directory="source",
        release_directory="release",
        db_url=f"sqlite:///{scratch / 'gradebook.db'}",
    )
    _generate(assignment, config, coursedir)
    return scratch / "release" / assignment


def enter_cells(assignment: str, course: Course, scratch: Path) -> None:
    """Tell the course's gradebook of the assignment's cells; the release stays as it is."""
    private_folder(course.build)
    config, coursedir = _directory(
        course,
        release_directory=os.path.relpath(scratch / "release", course.root),
    )
    _generate(assignment, config, coursedir)


def _generate(assignment: str, config: Config, coursedir: CourseDirectory) -> None:
    coursedir.assignment_id = assignment
    converter = GenerateAssignment(coursedir=coursedir, config=config)
    converter.force = True
    with quiet():
        _call(lambda: capture_log(converter))


def autograde(course: Course, assignment: str, student: str = "*") -> str:
    """nbgrader's autograde, for one student or all; gives its log."""
    check(course, write=True)
    return _convert(Autograde, course, assignment, student)


def generate_feedback(course: Course, assignment: str, student: str = "*") -> str:
    """nbgrader's generate_feedback, for one student or all; gives its log."""
    return _convert(GenerateFeedback, course, assignment, student)


def _convert(converter: Any, course: Course, assignment: str, student: str) -> str:
    config, coursedir = _directory(course)
    with temp_attrs(coursedir, assignment_id=assignment, student_id=student), quiet():
        step = converter(coursedir=coursedir, config=config)
        step.force = True
        return _call(lambda: capture_log(step))


def api(course: Course) -> NbGraderAPI:
    """nbgrader's own view of the course: what its formgrader shows."""
    config, coursedir = _directory(course)
    with quiet():
        return NbGraderAPI(coursedir=coursedir, config=config)
