"""`nbgrader release_assignment`, which also tells the gradebook what is being released.

nbgrader fills its gradebook in `generate_assignment`, which would write the release itself. Ours
is built already (`autograder build`), so the gradebook learns the cells and their points when the
assignment is released: `nbgrader autograde` and the formgrader know them from then on.
"""

from __future__ import annotations

import contextlib
import glob
import os
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry
from nbgrader.exchange.default import ExchangeReleaseAssignment, ExchangeReleaseFeedback

from autograder import scratch
from autograder.course import assignment as plans
from autograder.course import database, late, nbgrader_steps
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.publish import build


class Registering:
    """What a release to any exchange does first: the gradebook learns the assignment's cells."""

    coursedir: Any
    log: Any

    def copy_files(self) -> None:
        course = Course(kit=Course.here().kit, root=Path(self.coursedir.root))
        plan = plans.load(str(self.coursedir.assignment_id), course)
        level = self.log.level
        self.log.setLevel("WARNING")  # of a release in a scratch folder, which is nobody's
        try:
            _register(plan, course)
        finally:
            self.log.setLevel(level)
        if warning := build.other_date(plan, course):
            self.log.warning(warning)
        super().copy_files()  # type: ignore[misc]


class RegisteringRelease(Registering, ExchangeReleaseAssignment):  # type: ignore[misc]
    """nbgrader's release to the exchange, with the assignment's cells in the gradebook."""


class TimelessFeedback(ExchangeReleaseFeedback):  # type: ignore[misc]
    """nbgrader's release of feedback, also where no time is known, as with Canvas's downloads.

    nbgrader wants a ``timestamp.txt`` beside each page, whose text it logs. An empty one in the
    submitted folder would do for this, but it makes the formgrader fail.
    """

    def copy_files(self) -> None:
        for page in glob.glob(os.path.join(self.src_path, "*.html")):  # of all students
            Path(page).with_name("timestamp.txt").touch()
        super().copy_files()


def register(plan: Assignment, course: Course, folder: Path) -> None:
    """Write the assignment's cells and points into the course's gradebook.

    Raises:
        GradebookError: there are submissions already that don't fit the cells.
    """
    nbgrader_steps.enter_cells(plan.name, course, folder)
    late.tell(course)


def register_if_new(plan: Assignment, course: Course) -> None:
    """Register an assignment of which the gradebook knows no cells: what was handed in needs them.

    Raises:
        GradebookError: the gradebook can't be read or written.
    """
    if course.database.is_file():
        with database.open_gradebook(course) as book, contextlib.suppress(MissingEntry):
            if book.find_assignment(plan.name).notebooks:
                return
    _register(plan, course)


def _register(plan: Assignment, course: Course) -> None:
    source = course.source(plan.name)
    if not source.is_dir():
        source.mkdir(parents=True)
        build.write_source(plan, course, source)
    with scratch.fresh("release-") as folder:
        register(plan, course, folder)
