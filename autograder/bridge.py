"""Puts graded results into nbgrader: no kernel runs, and nothing a student wrote is executed.

nbgrader's own commands call, by ``nbgrader_config.py``:

    autograde          quarantine_submission   before any file is copied
                       RebuildExporter         reads the submission, gives a notebook of ours
                       WriteResults            in the place of Execute: outputs of the grade cells
                       SaveGrades              outputs -> gradebook, extra modules too
                       SaveRecord              why points were given, for a later regrade
    formgrader         EscapeNames             before its page of a submission is made
    generate_feedback  FeedbackExporter        our page, from the autograded notebook

nbgrader reads a grade cell's first ``execute_result`` as its score; no output, text, a negative
number and NaN are full marks, more than the maximum fails the submission. So each grade cell gets
one escaped table as ``display_data``, then one finite, clamped number.

A fault of ours raises: nbgrader keeps the grade that was there before, and a first grade waits.
``nbgrader autograde`` passes over what is there already; so what a run that was killed has left
in ``build/autograded`` or ``build/feedback`` is removed as the next one begins.
"""

from __future__ import annotations

import fcntl
import functools
import html
import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import nbgrader.api
from nbconvert.exporters import Exporter, NotebookExporter
from nbconvert.preprocessors import Preprocessor
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades

from autograder import assignment as plans
from autograder import (
    cluster_run,
    feedback,
    gradebook,
    graded,
    late,
    limits,
    notebooks,
    pipeline,
    receipt,
    storage,
)
from autograder.assignment import Assignment, ModuleSpec
from autograder.build import cell_points
from autograder.course import Course
from autograder.outcome import Outcome, clamp
from autograder.quarantine import Rejected, read_regular, sweep
from autograder.rebuild import Rebuilt, RebuiltNotebook, modules_of, rebuild, release_notebook
from autograder.sandbox import SandboxUnavailable

MARK = "ringside"  # where our own data stands in an autograded notebook's metadata
_not_swept: dict[str, str] = {}  # submission folder -> why; nbgrader goes on after its hook fails

# nbgrader opens the gradebook eight times for a submission, each time with an engine that has yet
# to compile all its statements: a third of the time. An engine stays of use after it is disposed.
nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)


def course_of(root: str | Path) -> Course:
    """The course whose data lies under nbgrader's course directory `root`."""
    return Course.of_root(root)


def quarantine_submission(assignment: str, student: str, notebooks: list[str]) -> None:
    """nbgrader's hook before it copies a submission's files and believes its time.

    What may not be read is moved to ``build/quarantine/<student>/<assignment>/``.
    """
    for folder in {Path(name).parent for name in notebooks}:
        root = folder.parents[3]  # root/build/submitted/<student>/<assignment>
        _not_swept.pop(str(folder), None)
        try:
            quarantine_folder(course_of(root), folder)
        except OSError as error:
            _not_swept[str(folder)] = str(storage.explain(error.filename or folder, error))
            raise


def quarantine_folder(course: Course, folder: Path) -> None:
    """Sweep one folder of the submitted tree, and stamp it with our receipt."""
    student, assignment = folder.parent.name, folder.name
    shelf = course.build / "quarantine" / student / assignment
    refused = sweep(folder, shelf, limits.load(assignment, course))
    moment = receipt.received(course, assignment).get(student)
    claimed = receipt.stamp(folder, moment)
    if claimed is not None:
        refused["timestamp.txt"] = f"said {claimed.strip()[:60]!r}; our receipt counts"
    if refused:
        shelf.mkdir(parents=True, exist_ok=True)
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
        course = course_of(converter.coursedir.root)
        try:
            gradebook.check(course, write=True)
            _check_sandbox(course, converter.assignments)
        except (gradebook.GradebookError, SandboxUnavailable) as error:
            converter.log.error(str(error))
            raise NbGraderException(str(error)) from error
        _clear_unfinished(self, _holds_result)

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
        course = course_of(converter.coursedir.root)
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        release = release_notebook(plan, course.release(plan.name))
        notes = [
            f"{name} {why}."
            for name, why in refused_files(
                course, resources["nbgrader"]["student"], plan.name
            ).items()
        ]
        try:
            rebuilt = rebuild(plan, release, read_regular(path, limits=plan.limits))
            rejected = ""
        except Rejected as error:
            rebuilt, rejected = RebuiltNotebook(notebook=release), str(error)
        rebuilt.notebook.metadata[MARK] = {"notes": notes + rebuilt.notes, "rejected": rejected}
        return rebuilt.notebook


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
    session = pipeline.Session(plan, course, _grade_now(course))
    return all(
        session.store.get(key) is not None
        for submission in pipeline.find(plan, [course.submitted(folder.parent.name, folder.name)])
        for key in session.keys(submission)
    )


def _grade_now(course: Course) -> pipeline.Grader:
    """The real grader, asked for when it is needed: a stored result needs no sandbox."""
    return lambda *words: pipeline.suite_grader(course)(*words)


def _clear_unfinished(exporter: Any, whole: Callable[[Path], bool]) -> None:
    """Remove what a run that was killed has left of the folders to be made, if nobody else runs.

    nbgrader passes over a folder that is there.
    """
    converter = exporter.parent
    root = Path(converter.coursedir.root)
    (root / "build").mkdir(parents=True, exist_ok=True)
    lock = os.open(root / "build", os.O_RDONLY | os.O_CLOEXEC)
    weakref.finalize(exporter, os.close, lock)  # held while this run lasts
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    except OSError:  # folders can't be locked there: then one run at a time is the rule
        pass
    for source in map(Path, converter.assignments):  # <student>/<assignment>
        folder = root / converter._format_dest(source.name, source.parent.name)
        if folder.is_dir() and not whole(folder):
            converter.log.warning("Removing what a run that was stopped has left: %s", folder)
            shutil.rmtree(folder)


def _is_page(folder: Path) -> bool:
    """Whether a feedback folder's page was written to its end."""
    path = folder / f"{folder.name}.html"
    return path.is_file() and path.read_bytes().rstrip().endswith(b"</html>")


def _holds_result(folder: Path) -> bool:
    """Whether an autograded folder's notebook was written whole, after the gradebook was."""
    try:
        content = json.loads((folder / f"{folder.name}.ipynb").read_bytes())
        return "outcome" in content["metadata"][MARK]
    except (OSError, ValueError, KeyError, TypeError):
        return False


class WriteResults(NbGraderPreprocessor):  # type: ignore[misc]
    """Writes each grade cell's outputs from the stored result, grading first where it is new."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        course = course_of(self.parent.parent.coursedir.root)
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        student = resources["nbgrader"]["student"]
        outcome = self._outcome(plan, student, course, nb)
        if outcome.status == "grader_error":
            gradebook.ask_for_a_person(course, plan.name, student)
            raise RuntimeError(outcome.message)  # nbgrader records a failure, not a zero
        run_results = self._runs(plan, course, student, outcome)
        for cell in nb.cells:
            write_outputs(plan, cell, outcome, run_results)
        nb.metadata[MARK] = {
            "student": student,
            "assignment": plan.name,
            # As one text: nbformat indents, which Python's fast JSON writer can't.
            "outcome": json.dumps(asdict(outcome)),
            "runs": {name: asdict(run) for name, run in run_results.items()},
        }
        return nb, resources

    def _outcome(self, plan: Assignment, student: str, course: Course, nb: NotebookNode) -> Outcome:
        mark = nb.metadata.get(MARK, {})
        if mark.get("rejected"):
            return Outcome(student, "rejected", message=mark["rejected"], notes=mark["notes"])
        release = release_notebook(plan, course.release(plan.name))
        modules, untouched = modules_of(plan, nb, release)
        rebuilt = Rebuilt(modules, untouched, list(mark.get("notes", [])))
        session = pipeline.Session(plan, course, _grade_now(course), jobs=pipeline.cores())
        return session.outcome(student, rebuilt)

    def _runs(
        self, plan: Assignment, course: Course, student: str, outcome: Outcome
    ) -> dict[str, cluster_run.RunCheck]:
        folder = course.submitted(student, plan.name)
        return {
            run.name: cluster_run.check(run, folder, outcome.modules.get(run.module))
            for run in plan.runs
        }


def write_outputs(
    plan: Assignment,
    cell: NotebookNode,
    outcome: Outcome,
    runs: dict[str, cluster_run.RunCheck],
) -> None:
    """Give one code cell the outputs that its grade is read from; other outputs are removed."""
    if cell.cell_type != "code":
        return
    cell.outputs, cell.execution_count = [], None
    marks = notebooks.marks(cell)
    if not marks.get("grade"):
        return
    grade_id = marks["grade_id"]
    module = _module_of(plan, grade_id)
    if module is not None:
        points = min(outcome.points(module), cell_points(module))
        table = feedback.module_table(module, outcome)
    elif grade_id in runs:
        points, table = runs[grade_id].points, feedback.run_table(runs[grade_id])
    else:
        points, table = 0.0, "<p>Nothing grades this cell.</p>"
    points = clamp(points, float(marks["points"]))
    cell.execution_count = 1
    cell.outputs = [notebooks.display(table, "(a table of tests)"), notebooks.number(points)]


def _module_of(plan: Assignment, grade_id: str) -> ModuleSpec | None:
    for module in plan.modules:
        if grade_id == f"check_{module.name}":
            return module
    return None


class SaveGrades(SaveAutoGrades):  # type: ignore[misc]
    """nbgrader's step in one transaction, where it commits after each cell; then extra modules.

    These are nbgrader's extra credit: a grade cell of 0 points leaves the assignment's maximum as
    it is. nbgrader keeps extra credit over re-autograding, so it is written each time; where a
    person has set the cell's manual score, the cell is theirs, extra credit included.
    """

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        names = resources["nbgrader"]
        self.notebook_id, self.assignment_id = names["notebook"], names["assignment"]
        self.student_id = names["student"]
        with Gradebook(names["db_url"]) as self.gradebook:
            session = self.gradebook.db
            commit, session.commit = session.commit, session.flush
            nb, resources = NbGraderPreprocessor.preprocess(self, nb, resources)
            self._save_extra_credit(outcome_of(nb))
            commit()
        return nb, resources

    def _save_extra_credit(self, outcome: Outcome) -> None:
        for module in plans.load(self.assignment_id).modules:
            if not module.extra:
                continue
            grade = self.gradebook.find_grade(
                f"check_{module.name}", self.notebook_id, self.assignment_id, self.student_id
            )
            if grade.manual_score is None:
                grade.extra_credit = clamp(outcome.points(module), module.weight)


class SaveRecord(NbGraderPreprocessor):  # type: ignore[misc]
    """Keeps what was given and why, after all else is in the gradebook; see ``graded``."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        plan = plans.load(resources["nbgrader"]["assignment"])
        outcome = outcome_of(nb)
        course = course_of(self.parent.parent.coursedir.root)
        runs = {name: float(run["points"]) for name, run in nb.metadata[MARK]["runs"].items()}
        notebook = course.submitted(outcome.student, plan.name) / plan.notebook
        graded.write(course, plan.name, graded.record_of(plan, outcome, runs, notebook))
        return nb, resources


def outcome_of(nb: NotebookNode) -> Outcome:
    """The outcome that WriteResults left in an autograded notebook."""
    stored = json.loads(nb.metadata[MARK]["outcome"])
    return Outcome(**{**stored, "untouched": tuple(stored["untouched"])})


class EscapeNames(Preprocessor):
    """Escapes names for nbgrader's formgrader, which writes them into its page as they are."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        for name in ("student", "first_name", "last_name"):
            if resources.get(name):
                resources[name] = html.escape(str(resources[name]))
        return nb, resources


class FeedbackExporter(Exporter):
    """Our page in the place of nbgrader's, which shows what students wrote unsanitised."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)  # type: ignore[no-untyped-call]
        if hasattr(self.parent, "assignments"):
            _clear_unfinished(self, _is_page)

    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        # The preprocessors (GetGrades) bring scores and comments that people gave.
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        plan = plans.load(nb.metadata[MARK]["assignment"])
        totals = resources["nbgrader"]
        outcome = outcome_of(nb)
        course = course_of(cast(Any, self.parent).coursedir.root)
        with Gradebook(totals["db_url"]) as book:
            unread = _unread(book, plan, totals)
            dates = late.calendar(course, book)
        account = late.account(course, outcome.student, dates=dates).get(plan.name)
        outcome.late_seconds = account.late_s if account else 0.0
        page = feedback.page_of(
            plan,
            outcome,
            runs={
                name: cluster_run.RunCheck(**stored)
                for name, stored in nb.metadata[MARK]["runs"].items()
            },
            cells=feedback.graded_cells(nb, unread),
            totals=feedback.Totals(
                score=totals["score"],
                max_score=totals["max_score"],
                late_penalty=totals["late_penalty"],
                late=account.sentence if account else "",
            ),
        )
        return feedback.render(page), resources


def _unread(book: Any, plan: Assignment, names: dict[str, Any]) -> set[str]:
    """The paragraphs that wait for a person."""
    return {
        paragraph.name
        for paragraph in plan.paragraphs
        if book.find_grade(
            paragraph.name, names["notebook"], plan.name, names["student"]
        ).needs_manual_grade
    }
