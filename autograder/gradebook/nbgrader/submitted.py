"""How `nbgrader autograde` sees a submission: quarantined, rebuilt, as a notebook of ours."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException

from autograder import notebooks, storage
from autograder.collect import own_folder, preparation, submissions, team_submissions
from autograder.collect.quarantine import Rejected, sweep
from autograder.collect.rebuild import (
    RebuiltNotebook,
    as_notebook,
    beside_sentence,
    release_notebook,
)
from autograder.course import assignment as plans
from autograder.course import database, limits, people, receipt
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.course.people import others_read
from autograder.grade import pipeline
from autograder.gradebook.nbgrader import grading_record, settled
from autograder.gradebook.nbgrader.outdated import clear_unfinished, why_another, why_not_result
from autograder.gradebook.nbgrader.results import MARK, OneCause, grade_now
from autograder.sandbox.sandbox import SandboxUnavailable

_not_swept: dict[str, str] = {}  # submission folder -> why; nbgrader goes on after its hook fails


# nbgrader passes over a submission without a notebook; ours may be handed in as files.
_init_notebooks = Autograde.init_notebooks
_convert_notebooks = Autograde.convert_notebooks


def _see_files(converter: Any) -> None:
    name = converter.coursedir.assignment_id
    course = Course.of_root(converter.coursedir.root)
    try:
        if name in plans.known(course):
            plan = plans.load(name, course)
            found = [submissions.Submission(f.parent.name, f) for f in course.submissions(name)]
            doubts = team_submissions.doubts(plan, found, course)
            for sentence in [*doubts, *team_submissions.spread(plan, course)]:
                converter.log.warning(sentence)
            for folder in course.submissions(name):
                own_folder.hold_place(plan, folder)
    except (OSError, AssignmentError) as error:
        converter.log.error(str(error))
        raise NbGraderException(str(error)) from error
    _init_notebooks(converter)


def _convert_all(converter: Any) -> None:
    """Convert, and fail at the end if nbgrader did not see somebody who has handed in."""
    once = OneCause()
    converter.log.addFilter(once)
    try:
        _convert_notebooks(converter)
    finally:
        converter.log.removeFilter(once)
    where = converter.coursedir
    course = Course.of_root(where.root)
    seen = {Path(each).parent.name for each in converter.assignments}
    excluded = set(getattr(where, "student_id_exclude", "").split(","))
    asked = [
        folder
        for folder in course.submissions(where.assignment_id)
        if fnmatch.fnmatchcase(folder.parent.name, where.student_id)
    ]
    missing = [each for each in asked if each.parent.name not in seen | excluded]
    for folder in missing:
        converter.log.error("%s was not graded: nbgrader can't list it.", folder)
    if missing:
        names = ", ".join(each.parent.name for each in missing)
        raise NbGraderException(f"Handed in and not graded: {names}. The log says more.")


Autograde.init_notebooks = _see_files
Autograde.convert_notebooks = _convert_all


def quarantine_submission(assignment: str, student: str, notebooks: list[str]) -> None:
    """nbgrader's hook before it copies a submission's files and believes its time.

    What may not be read is moved to ``build/quarantine/<student>/<assignment>/``.
    """
    for folder in {Path(name).parent for name in notebooks}:
        root = folder.parents[3]  # root/build/submitted/<student>/<assignment>
        _not_swept.pop(str(folder), None)
        try:
            quarantine_folder(Course.of_root(root), folder)
        except OSError as error:
            _not_swept[str(folder)] = str(storage.explain(error.filename or folder, error))
            raise


def quarantine_folder(course: Course, folder: Path) -> None:
    """Sweep one folder of the submitted tree, and stamp it with our receipt."""
    student, assignment = folder.parent.name, folder.name
    shelf = course.build / "quarantine" / student / assignment
    refused = sweep(folder, shelf, limits.load(assignment, course))
    moment = receipt.arrived(course, assignment).get(student)
    claimed = receipt.stamp(folder, moment)
    if claimed and grading_record.read(course, assignment, student) is None:  # later it is our own
        refused["timestamp.txt"] = f"said {claimed.strip()[:60]!r}; our receipt counts"
    if refused:
        refused = {**refused_files(course, student, assignment), **refused}
        storage.private_folder(shelf)
        listing = json.dumps(refused, indent=1, sort_keys=True)
        (shelf / "refused.json").write_text(listing + "\n", encoding="utf-8")


def refused_files(course: Course, student: str, assignment: str) -> dict[str, str]:
    """What the quarantine took out of a submission."""
    path = course.build / "quarantine" / student / assignment / "refused.json"
    if not path.is_file():
        return {}
    return {str(k): str(v) for k, v in json.loads(path.read_text(encoding="utf-8")).items()}


class RebuildExporter(NotebookExporter):
    """Reads a submitted notebook through quarantine and rebuild, for `nbgrader autograde`."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)  # type: ignore[no-untyped-call]
        converter: Any = self.parent
        if converter is None or not hasattr(converter, "assignments"):
            return
        course = Course.of_root(converter.coursedir.root)
        try:
            database.check(course, write=True)
            settled.settle(course, [str(converter.coursedir.assignment_id)])
            doubts = people.doubts(course, *_assigned(converter))
            _check_sandbox(course, converter.assignments)
        except (database.GradebookError, AssignmentError, SandboxUnavailable) as error:
            converter.log.error(str(error))
            raise NbGraderException(str(error)) from error
        for sentence in (*others_read(course), *doubts):
            converter.log.warning(sentence)
        clear_unfinished(self, lambda folder: why_not_result(folder) or why_another(course, folder))

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        resources = resources or {}
        path = Path(filename)
        converter: Any = self.parent
        sanitizing = converter._sanitizing
        notebook = self._rebuilt(path, resources) if sanitizing else notebooks.read(path)
        output, resources = super().from_notebook_node(  # type: ignore[no-untyped-call]
            notebook, resources=resources, **kw
        )
        return output, resources

    def _rebuilt(self, path: Path, resources: dict[str, Any]) -> NotebookNode:
        if why := _not_swept.get(str(path.parent)):
            raise RuntimeError(why)
        converter: Any = self.parent
        course = Course.of_root(converter.coursedir.root)
        student = resources["nbgrader"]["student"]
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        release = release_notebook(plan, course.release(plan.name))
        refused = refused_files(course, student, plan.name)
        lost = refused.pop(plan.notebook, "") or refused.get(".", "")  # it was moved away
        rejected = ""
        try:
            submission = submissions.Submission(student, path.parent)
            found = preparation.prepare(plan, submission, course)
        except (Rejected, submissions.PathError) as error:
            found, rejected = RebuiltNotebook(notebook=release), str(error)
        if not isinstance(found, RebuiltNotebook):
            found = as_notebook(plan, release, found)
            if lost and found.modules:
                found.intake.append(beside_sentence(f"{plan.notebook} {lost}.", found.modules))
            elif lost:
                rejected = lost if lost == refused.get(".") else f"{plan.notebook} {lost}."
        names = {module.name for module in plan.modules}
        found.notebook.metadata[MARK] = {
            "notes": [f"{name} {why}." for name, why in refused.items()] + found.notes,
            "intake": found.intake,
            "absent": sorted(names - found.modules.keys()),
            "runs": [asdict(run) for run in found.runs],  # perhaps of an archive, unpacked by now
            "rejected": rejected,
        }
        return found.notebook


def _assigned(converter: Any) -> tuple[str, list[str]]:
    """The assignment that nbgrader is about to convert, and whose submissions."""
    folders = [Path(name) for name in converter.assignments]  # <student>/<assignment>
    return str(converter.coursedir.assignment_id), [each.parent.name for each in folders]


def _check_sandbox(course: Course, folders: Iterable[str]) -> None:
    """Refuse the class as a whole, where some of it has no result yet and nothing confines it.

    Raises:
        SandboxUnavailable: that is so.
    """
    if not all(_is_graded(course, Path(folder)) for folder in folders):
        pipeline.suite_grader(course)


def _is_graded(course: Course, folder: Path) -> bool:
    """Whether the store has all results of a submission in nbgrader's tree."""
    plan = plans.load(folder.name, course)
    session = pipeline.GradingSession(plan, course, grade_now(course))
    return all(
        session.store.get(key) is not None
        for submission in submissions.find(
            plan, [course.submitted(folder.parent.name, folder.name)], "submission"
        )
        for key in session.keys(submission)
    )
