"""Puts graded results into nbgrader: no kernel runs, and nothing a student wrote is executed.

nbgrader's own commands call, by ``nbgrader_config.py``:

    autograde          _see_files              before it looks for notebooks
                       quarantine_submission   before any file is copied
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
nbgrader's commands pass over what is there already. So as one begins, it removes what is to be made
anew: what a run that was killed has left in ``build/autograded`` or ``build/feedback``; results
whose lateness has changed since (an extension); pages whose grade has (a regrade, points by hand).
A folder with files of somebody else is moved to ``build/kept``.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import html
import json
import os
import re
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
from nbgrader.converters import Autograde
from nbgrader.converters.base import NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades

from autograder import notebooks, storage
from autograder.authoring.build import cell_points
from autograder.course import assignment as plans
from autograder.course import limits, people
from autograder.course.assignment import Assignment, AssignmentError, ModuleSpec
from autograder.course.course import Course
from autograder.course.people import others_read
from autograder.grade import pipeline
from autograder.grade.outcome import Outcome, clamp
from autograder.gradebook import database
from autograder.nbgrader import graded, grades
from autograder.report import feedback
from autograder.sandbox.sandbox import SandboxUnavailable
from autograder.submission import cluster_run, finding, late, reading, receipt
from autograder.submission.quarantine import Rejected, sweep
from autograder.submission.rebuild import (
    Rebuilt,
    RebuiltNotebook,
    as_notebook,
    beside_sentence,
    modules_of,
    release_notebook,
)
from ringside import output_folder

MARK = "ringside"  # where our own data stands in an autograded notebook's metadata
_not_swept: dict[str, str] = {}  # submission folder -> why; nbgrader goes on after its hook fails

# nbgrader opens the gradebook eight times for a submission, each time with an engine that has yet
# to compile all its statements: a third of the time. An engine stays of use after it is disposed.
nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)


# nbgrader passes over a submission without a notebook; ours may be handed in as files.
_init_notebooks = Autograde.init_notebooks


def _see_files(converter: Any) -> None:
    name = converter.coursedir.assignment_id
    course = course_of(converter.coursedir.root)
    try:
        for folder in course.submissions(name) if name in plans.known(course) else ():
            finding.hold_place(plans.load(name, course), folder)
    except OSError as error:
        converter.log.error(str(error))
        raise NbGraderException(str(error)) from error
    _init_notebooks(converter)


Autograde.init_notebooks = _see_files


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
    if claimed and graded.read(course, assignment, student) is None:  # later it is our own
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
        course = course_of(converter.coursedir.root)
        try:
            database.check(course, write=True)
            late.tell(course)
            doubts = people.doubts(course, *_assigned(converter))
            _check_sandbox(course, converter.assignments)
        except (database.GradebookError, AssignmentError, SandboxUnavailable) as error:
            converter.log.error(str(error))
            raise NbGraderException(str(error)) from error
        for sentence in (*others_read(course), *doubts):
            converter.log.warning(sentence)
        lateness = _Lateness(course)
        _clear_unfinished(
            self,
            lambda folder: (
                _why_not_result(folder)
                or _why_another(course, folder)
                or lateness.why_changed(folder)
            ),
        )

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
        student = resources["nbgrader"]["student"]
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        release = release_notebook(plan, course.release(plan.name))
        refused = refused_files(course, student, plan.name)
        lost = refused.pop(plan.notebook, "") or refused.get(".", "")  # it was moved away
        rejected = ""
        try:
            submission = finding.Submission(student, path.parent)
            found = reading.prepare(plan, submission, course)
        except (Rejected, finding.PathError) as error:
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
    session = pipeline.Session(plan, course, _grade_now(course))
    return all(
        session.store.get(key) is not None
        for submission in finding.find(plan, [course.submitted(folder.parent.name, folder.name)])
        for key in session.keys(submission)
    )


def _grade_now(course: Course) -> pipeline.Grader:
    """The real grader, asked for when it is needed: a stored result needs no sandbox."""
    return lambda *words: pipeline.suite_grader(course)(*words)


def _clear_unfinished(exporter: Any, why_not: Callable[[Path], str]) -> None:
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
    except BlockingIOError:
        return
    except OSError:  # folders can't be locked there: then one run at a time is the rule
        pass
    for source in map(Path, converter.assignments):  # <student>/<assignment>
        folder = root / converter._format_dest(source.name, source.parent.name)
        try:
            why = why_not(folder) if folder.is_dir() else ""
        except (AssignmentError, database.GradebookError) as error:  # a table, or the gradebook
            converter.log.error(str(error))
            raise NbGraderException(str(error)) from error
        if why:
            _remove_outdated(folder, source, root / "build", why, converter.log)


def _remove_outdated(folder: Path, source: Path, build: Path, why: str, log: Any) -> None:
    """Remove a folder that nbgrader makes of `source`; with files of others, it is kept."""
    made = {f"{folder.name}.ipynb", f"{folder.name}.html"}
    for each in (source, build / "source" / folder.name):  # nbgrader lays the supplied files over
        made.update(output_folder.contents(each))
    if strangers := sorted(output_folder.contents(folder).keys() - made):
        kept = output_folder.numbered(build / "kept" / folder.relative_to(build))
        kept.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(kept)
        log.warning("%s held what nbgrader didn't write (%s): it is in %s now.",
                    folder, ", ".join(strangers), kept)  # fmt: skip
        return
    log.warning("%s: %s is made anew.", why, folder)
    shutil.rmtree(folder)


KILLED = "A run that was stopped has left only a part"


def _why_not_page(folder: Path) -> str:
    """Whether a feedback folder's page was written to its end."""
    path = folder / f"{folder.name}.html"
    whole = path.is_file() and path.read_bytes().rstrip().endswith(b"</html>")
    return "" if whole else KILLED


def _why_not_result(folder: Path) -> str:
    """Whether an autograded folder's notebook was written whole, after the gradebook was."""
    try:
        content = json.loads((folder / f"{folder.name}.ipynb").read_bytes())
        return "" if "outcome" in content["metadata"][MARK] else KILLED
    except (OSError, ValueError, KeyError, TypeError):
        return KILLED


def _why_another(course: Course, folder: Path) -> str:
    """Whether something else was handed in since a submission was autograded."""
    student, assignment = folder.parent.name, folder.name
    record = graded.read(course, assignment, student)
    notebook = course.submitted(student, assignment) / f"{assignment}.ipynb"
    same = record is None or record.submission in ("", graded.submission_hash(notebook))
    return "" if same else "Something else was handed in since"


class _Lateness:
    """What lateness costs now, beside what it cost when a submission was autograded."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._percents: dict[str, dict[str, float]] = {}

    def why_changed(self, folder: Path) -> str:
        """A sentence, where an extension or a receipt has changed it; nothing else."""
        student, assignment = folder.parent.name, folder.name
        record = graded.read(self.course, assignment, student)
        if record is None or record.late_percent is None:
            return ""
        if assignment not in self._percents:
            account = late.of_assignment(self.course, assignment)
            self._percents[assignment] = {name: each.percent for name, each in account.items()}
        now = self._percents[assignment].get(student, 0.0)
        if now == record.late_percent:
            return ""
        return f"Lateness took {record.late_percent:g} % of the score, and takes {now:g} % now"


class _Pages:
    """Feedback pages, each beside the grade that it must show."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._known: dict[str, tuple[Assignment, dict[str, late.Late]]] = {}

    def why_not(self, folder: Path) -> str:
        """A sentence, where the page is none, or of an earlier grade."""
        if why := _why_not_page(folder):
            return why
        student, assignment = folder.parent.name, folder.name
        found = STAMP.search((folder / f"{assignment}.html").read_text(encoding="utf-8"))
        if assignment not in self._known:
            account = late.of_assignment(self.course, assignment)
            self._known[assignment] = (plans.load(assignment, self.course), account)
        plan, lateness = self._known[assignment]
        with database.open_gradebook(self.course) as book:
            now = grade_stamp(book, self.course, plan, student, lateness.get(student))
        return "" if found and found[1] == now else "The page is of an earlier grade"


STAMP = re.compile(r'<meta name="ringside-grade" content="([0-9a-f]+)">')


def grade_stamp(
    book: Any, course: Course, plan: Assignment, student: str, lateness: late.Late | None
) -> str:
    """A hash of all that a feedback page is made of: points, comments, lateness, results."""
    cells = grades.cell_marks(book, plan, student) or {}
    made_of = {
        "cells": {name: asdict(cell) for name, cell in cells.items()},
        "late": lateness and asdict(lateness),
        "penalty": grades.late_penalty(book, plan.name, student),
        "results": graded.file_hash(course.autograded(student, plan.name) / plan.notebook),
    }
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:32]


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
            grades.ask_for_a_person(course, plan.name, student)
            raise RuntimeError(outcome.message)  # nbgrader records a failure, not a zero
        kept = nb.metadata.get(MARK, {}).get("runs")
        outcome.runs = (
            [cluster_run.of_record(run) for run in kept]
            if kept
            else cluster_run.check_all(plan, course.submitted(student, plan.name), outcome.modules)
        )
        runs = {run.name: run for run in outcome.runs}
        for cell in nb.cells:
            write_outputs(plan, cell, outcome, runs)
        nb.metadata[MARK] = {
            "student": student,
            "assignment": plan.name,
            # As one text: nbformat indents, which Python's fast JSON writer can't.
            "outcome": json.dumps(asdict(outcome)),
        }
        return nb, resources

    def _outcome(self, plan: Assignment, student: str, course: Course, nb: NotebookNode) -> Outcome:
        mark = nb.metadata.get(MARK, {})
        if mark.get("rejected"):
            return Outcome(student, "rejected", message=mark["rejected"], notes=mark["notes"])
        release = release_notebook(plan, course.release(plan.name))
        modules, untouched = modules_of(plan, nb, release)
        for name in mark.get("absent", ()):
            modules.pop(name, None)
        rebuilt = Rebuilt(
            modules,
            tuple(name for name in untouched if name in modules),
            list(mark.get("notes", [])),
            list(mark.get("intake", [])),
        )
        session = pipeline.Session(plan, course, _grade_now(course), jobs=pipeline.cores())
        return session.outcome(student, rebuilt)


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
            read = self._texts_read()
            nb, resources = NbGraderPreprocessor.preprocess(self, nb, resources)
            for grade in read:
                grade.needs_manual_grade = False
            self._save_extra_credit(outcome_of(nb))
            commit()
        return nb, resources

    def _texts_read(self) -> list[Any]:
        """The texts that a person has graded, if the submission is still the one they saw.

        nbgrader asks for a second look at all that has a manual score.
        """
        course = course_of(self.parent.parent.coursedir.root)
        plan = plans.load(self.assignment_id, course)
        record = graded.read(course, plan.name, self.student_id)
        notebook = course.submitted(self.student_id, plan.name) / plan.notebook
        if record is None or record.submission != graded.submission_hash(notebook):
            return []
        submission = self.gradebook.find_submission(plan.name, self.student_id)
        texts = {paragraph.name for paragraph in plan.paragraphs}
        return [
            grade
            for each in submission.notebooks
            for grade in each.grades
            if grade.name in texts
            and grade.manual_score is not None
            and not grade.needs_manual_grade
        ]

    def _save_extra_credit(self, outcome: Outcome) -> None:
        course = course_of(self.parent.parent.coursedir.root)
        for module in plans.load(self.assignment_id, course).modules:
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
        course = course_of(self.parent.parent.coursedir.root)
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        outcome = outcome_of(nb)
        notebook = course.submitted(outcome.student, plan.name) / plan.notebook
        with Gradebook(resources["nbgrader"]["db_url"]) as book:
            dates = late.calendar(course, book)
        account = late.account(course, outcome.student, dates=dates).get(plan.name)
        percent = account.percent if account else 0.0
        record = graded.record_of(plan, outcome, notebook, late_percent=percent)
        graded.write(course, plan.name, record)
        self._say_which_pages_are_old(course, plan, outcome.student)
        return nb, resources

    def _say_which_pages_are_old(self, course: Course, plan: Assignment, student: str) -> None:
        """Once a run: nbgrader's autograde makes no pages."""
        told = getattr(self, "_told", False)
        if not told and (course.feedback(student, plan.name) / f"{plan.name}.html").is_file():
            self._told = True
            self.log.warning(
                "There are feedback pages of %s from before: `nbgrader generate_feedback %s` "
                "renews those whose grade has changed; where feedback was released, "
                "`nbgrader release_feedback %s` releases them again.",
                *[plan.name] * 3,
            )


def outcome_of(nb: NotebookNode) -> Outcome:
    """The outcome that WriteResults left in an autograded notebook."""
    stored = json.loads(nb.metadata[MARK]["outcome"])
    runs = stored.get("runs") or list(nb.metadata[MARK].get("runs", {}).values())
    changed = {
        "untouched": tuple(stored["untouched"]),
        "runs": [cluster_run.of_record(run) for run in runs],
    }
    return Outcome(**{**stored, **changed})


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
            pages = _Pages(course_of(cast(Any, self.parent).coursedir.root))
            _clear_unfinished(self, pages.why_not)

    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **kw: Any
    ) -> tuple[Any, dict[str, Any]]:
        # The preprocessors (GetGrades) bring scores and comments that people gave.
        nb, resources = super().from_notebook_node(nb, resources, **kw)
        course = course_of(cast(Any, self.parent).coursedir.root)
        plan = plans.load(nb.metadata[MARK]["assignment"], course)
        totals = resources["nbgrader"]
        outcome = outcome_of(nb)
        with Gradebook(totals["db_url"]) as book:
            outcome.cells = grades.cell_marks(book, plan, outcome.student) or {}
            dates = late.calendar(course, book)
            account = late.account(course, outcome.student, dates=dates).get(plan.name)
            stamp = grade_stamp(book, course, plan, outcome.student, account)
        outcome.late_seconds = account.late_s if account else 0.0
        page = feedback.page_of(
            plan,
            outcome,
            cells=feedback.graded_cells(
                nb, {name for name, cell in outcome.cells.items() if cell.waits}
            ),
            totals=feedback.Totals(
                score=totals["score"],
                max_score=totals["max_score"],
                late_penalty=totals["late_penalty"],
                late=account.sentence if account else "",
            ),
            stamp=stamp,
        )
        return feedback.render(page), resources
