"""How `nbgrader autograde` sees a submission: quarantined, rebuilt, as a notebook of ours."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nbconvert.exporters import NotebookExporter
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException

from autograder import notebooks, storage
from autograder.collect import cluster_run, own_folder, preparation, submissions, team_submissions
from autograder.collect.quarantine import Rejected, sweep
from autograder.collect.rebuild import (
    RebuiltNotebook,
    as_notebook,
    beside_sentence,
    modules_of,
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
from autograder.gradebook.nbgrader.results import SUBMITTED, OneCause, Submitted, grade_now
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
            handed_in = [submissions.Submission(f.parent.name, f) for f in course.submissions(name)]
            doubts = team_submissions.doubts(plan, handed_in, course)
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
    settings = converter.coursedir
    course = Course.of_root(settings.root)
    listed = {Path(folder).parent.name for folder in converter.assignments}
    excluded = set(getattr(settings, "student_id_exclude", "").split(","))
    missing = [
        folder
        for folder in course.submissions(settings.assignment_id)
        if fnmatch.fnmatchcase(folder.parent.name, settings.student_id)
        and folder.parent.name not in listed | excluded
    ]
    for folder in missing:
        converter.log.error("%s was not graded: nbgrader can't list it.", folder)
    if missing:
        names = ", ".join(folder.parent.name for folder in missing)
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
    # Before the stamp, which would follow a link that is called timestamp.txt.
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
        # nbgrader converts each notebook twice: what was handed in, at once followed by the copy
        # that it has written of our rebuild. The second time nothing of the student's is read.
        resources = resources or {}
        path = Path(filename)
        converter: Any = self.parent
        if converter._sanitizing:
            self._submitted = self._rebuild(path, resources)
            notebook = self._submitted.rebuilt.notebook
        else:
            notebook = notebooks.read(path)
            resources[SUBMITTED] = self._submitted
        output, resources = super().from_notebook_node(  # type: ignore[no-untyped-call]
            notebook, resources=resources, **kw
        )
        return output, resources

    def _rebuild(self, path: Path, resources: dict[str, Any]) -> Submitted:
        """Quarantine and rebuild what lies beside `path`; what is graded is what is found here."""
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
            rebuilt = preparation.prepare(plan, submission, course)
        except (Rejected, submissions.PathError) as error:
            rebuilt, rejected = RebuiltNotebook(notebook=release), str(error)
            rebuilt.runs = cluster_run.check_all(plan, path.parent, {}, course)
        if not isinstance(rebuilt, RebuiltNotebook):
            rebuilt = as_notebook(plan, release, rebuilt)
            if lost and rebuilt.modules:
                rebuilt.intake.append(beside_sentence(f"{plan.notebook} {lost}.", rebuilt.modules))
            elif lost:
                rejected = lost if lost == refused.get(".") else f"{plan.notebook} {lost}."
        rebuilt.notes[:0] = [f"{name} {why}." for name, why in refused.items()]
        _, as_released = modules_of(plan, rebuilt.notebook, release)
        rebuilt.untouched = tuple(name for name in as_released if name in rebuilt.modules)
        return Submitted(rebuilt, rejected)


def _assigned(converter: Any) -> tuple[str, list[str]]:
    """The assignment that nbgrader is about to convert, and whose submissions."""
    folders = [Path(name) for name in converter.assignments]  # <student>/<assignment>
    return str(converter.coursedir.assignment_id), [folder.parent.name for folder in folders]


def _check_sandbox(course: Course, folders: Iterable[str]) -> None:
    """Refuse the class as a whole, where some of it has no result yet and nothing confines it.

    Raises:
        SandboxUnavailable: that is so.
    """
    try:
        pipeline.suite_grader(course)
    except SandboxUnavailable:
        if not all(_is_graded(course, Path(folder)) for folder in folders):
            raise


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
