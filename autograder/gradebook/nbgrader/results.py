"""What `nbgrader autograde` writes: outputs of the grade cells, the gradebook, the record.

nbgrader reads a grade cell's first ``execute_result`` as its score; no output, text, a negative
number and NaN are full marks, more than the maximum fails the submission. So each grade cell gets
one escaped table as ``display_data``, then one finite, clamped number.

A fault of ours raises: nbgrader keeps the grade that was there before, and a first grade waits.
"""

from __future__ import annotations

import functools
import json
import logging
from dataclasses import asdict, dataclass
from typing import Any

import nbgrader.api
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades

from autograder import notebooks
from autograder.collect import cluster_run
from autograder.collect.rebuild import RebuiltNotebook
from autograder.course import applied_tables, decisions
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, ModuleSpec
from autograder.course.course import Course
from autograder.grade import fault_causes, pipeline
from autograder.grade.outcome import Outcome, clamp
from autograder.grade.suite.result import ModuleResult
from autograder.gradebook.nbgrader import applied_decisions, grades, grading_record
from autograder.gradebook.report import cell_tables
from autograder.publish.build import cell_points

MARK = "ringside"  # where our own data stands in an autograded notebook's metadata
SUBMITTED = "ringside_submitted"  # where nbgrader's resources bring what was rebuilt

# nbgrader opens the gradebook eight times for a submission, each time with an engine that has yet
# to compile all its statements: a third of the time. An engine stays of use after it is disposed.
nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)


@dataclass(frozen=True)
class Submitted:
    """What `nbgrader autograde` has before it, quarantined and rebuilt once.

    Attributes:
        rebuilt: its notebook is the one that nbgrader gets; its modules are graded.
        rejected: why it can't be read, or empty.
    """

    rebuilt: RebuiltNotebook
    rejected: str = ""


def grade_now(course: Course) -> pipeline.Grader:
    """The real grader, asked for when it is needed: a stored result needs no sandbox."""
    return lambda *module: pipeline.suite_grader(course)(*module)


class GraderFailed(RuntimeError):
    """A submission that was not graded, by a fault of ours; the message has the cause."""


class OneCause(logging.Filter):
    """One line of each cause in nbgrader's log, which has a traceback for each submission."""

    def __init__(self) -> None:
        super().__init__()
        self._causes: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        mark = f"{GraderFailed.__name__}: "
        if mark not in text or not text.startswith("Traceback"):
            return True
        cause = text.rpartition(mark)[2].strip()
        record.msg, record.args = cause, ()
        cause = fault_causes.TRIES.sub("", cause)  # only the first of many is tried anew
        is_new = cause not in self._causes
        self._causes.add(cause)
        return is_new


class WriteResults(NbGraderPreprocessor):  # type: ignore[misc]
    """Writes each grade cell's outputs from the stored result, grading first where it is new."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        course = Course.of_root(self.parent.parent.coursedir.root)
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        student = resources["nbgrader"]["student"]
        outcome = self._outcome(plan, student, course, resources[SUBMITTED])
        if outcome.status == "grader_error":
            grades.ask_for_a_person(course, plan.name, student)
            raise GraderFailed(outcome.message)  # nbgrader records a failure, not a zero
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

    def _outcome(
        self, plan: Assignment, student: str, course: Course, submitted: Submitted
    ) -> Outcome:
        rebuilt = submitted.rebuilt
        if submitted.rejected:
            message = submitted.rejected
            return Outcome(
                student, "rejected", message=message, notes=rebuilt.notes, runs=rebuilt.runs
            )
        session = pipeline.GradingSession(plan, course, grade_now(course), jobs=pipeline.cores())
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
        table = cell_tables.module_table(module, outcome)
    elif grade_id in runs:
        points, table = runs[grade_id].points, cell_tables.run_table(runs[grade_id])
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
    person has set the cell's manual score, or other extra credit than ours, the cell is theirs.
    """

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        names = resources["nbgrader"]
        self.notebook_id, self.assignment_id = names["notebook"], names["assignment"]
        self.student_id = names["student"]
        with Gradebook(names["db_url"]) as self.gradebook:
            session = self.gradebook.db
            # nbgrader commits after each cell; one that is killed must leave the older grade.
            commit, session.commit = session.commit, session.flush
            course = Course.of_root(self.parent.parent.coursedir.root)
            plan = plans.load(self.assignment_id, course)
            submission = self.gradebook.find_submission(plan.name, self.student_id)
            applied_decisions.lift(self.gradebook, plan, submission)
            # After the lift: of points that somebody typed, and not of those of a decision.
            seen = self._seen(course, plan, submission)
            # Not super(): SaveAutoGrades would open a gradebook of its own, which commits.
            nb, resources = NbGraderPreprocessor.preprocess(self, nb, resources)
            outcome = outcome_of(nb)
            self._save_extra_credit(plan, outcome)
            self._ask_for_a_person(outcome)
            for grade, points in seen:
                if grade.auto_score == points:
                    grade.needs_manual_grade = False
            own_decisions = decisions.of_student(decisions.read(course, plan), self.student_id)
            applied_decisions.lay(self.gradebook, plan, submission, own_decisions)
            commit()
        return nb, resources

    def _ask_for_a_person(self, outcome: Outcome) -> None:
        """A run that a person is to judge has no points yet, and no zero."""
        for run in outcome.runs:
            if run.waits:
                grade = self.gradebook.find_grade(
                    run.name, self.notebook_id, self.assignment_id, self.student_id
                )
                grade.auto_score = None
                if grade.manual_score is None:
                    grade.needs_manual_grade = True

    def _seen(self, course: Course, plan: Assignment, submission: Any) -> list[tuple[Any, Any]]:
        """What a person has graded, with the suite's points that they saw beside their own.

        nbgrader asks for a second look at all that has a manual score. Where neither the submission
        nor the suite's points are others, there is nothing to look at.
        """
        record = grading_record.read(course, plan.name, self.student_id)
        notebook = course.submitted(self.student_id, plan.name) / plan.notebook
        if record is None or record.submission != grading_record.submission_hash(notebook):
            return []
        return [
            (grade, grade.auto_score)
            for notebook in submission.notebooks
            for grade in notebook.grades
            if grade.manual_score is not None and not grade.needs_manual_grade
        ]

    def _save_extra_credit(self, plan: Assignment, outcome: Outcome) -> None:
        notes = applied_tables.read(self.gradebook)
        for module in plan.modules:
            if not module.extra:
                continue
            key = (f"{plan.name}/check_{module.name}/suite", self.student_id)
            grade = self.gradebook.find_grade(
                f"check_{module.name}", self.notebook_id, self.assignment_id, self.student_id
            )
            ours = key not in notes or notes[key] == f"{grade.extra_credit}"
            if grade.manual_score is None and ours:
                grade.extra_credit = clamp(outcome.points(module), module.weight)
                applied_tables.write(self.gradebook, key, f"{grade.extra_credit}")


class SaveRecord(NbGraderPreprocessor):  # type: ignore[misc]
    """Keeps what was given and why, after all else is in the gradebook; see ``grading_record``."""

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any]
    ) -> tuple[NotebookNode, dict[str, Any]]:
        course = Course.of_root(self.parent.parent.coursedir.root)
        plan = plans.load(resources["nbgrader"]["assignment"], course)
        outcome = outcome_of(nb)
        notebook = course.submitted(outcome.student, plan.name) / plan.notebook
        grading_record.write(course, plan.name, grading_record.record_of(plan, outcome, notebook))
        self._say_which_pages_are_old(course, plan, outcome.student)
        return nb, resources

    def _say_which_pages_are_old(self, course: Course, plan: Assignment, student: str) -> None:
        """Once a run: nbgrader's autograde makes no pages."""
        has_warned = getattr(self, "_has_warned", False)
        if not has_warned and (course.feedback(student, plan.name) / f"{plan.name}.html").is_file():
            self._has_warned = True
            self.log.warning(
                "There are feedback pages of %s from before: `nbgrader generate_feedback %s` "
                "renews those whose grade has changed; where feedback was released, "
                "`nbgrader release_feedback %s` releases them again.",
                *[plan.name] * 3,
            )


def outcome_of(nb: NotebookNode) -> Outcome:
    """The outcome that WriteResults left in an autograded notebook."""
    stored = json.loads(nb.metadata[MARK]["outcome"])
    runs = stored.pop("runs", None) or list(nb.metadata[MARK].get("runs", {}).values())
    parts = stored.pop("results", None)
    if parts is None:  # of a notebook that an earlier kit has autograded
        parts = stored.pop("result", {}).get("modules", {})
    return Outcome(
        **{**stored, "untouched": tuple(stored["untouched"])},
        runs=[cluster_run.of_record(run) for run in runs],
        results={
            name: ModuleResult.from_json({"module": name, **part}) for name, part in parts.items()
        },
    )
