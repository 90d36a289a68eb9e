"""Drives nbgrader: its release, its gradebook, its feedback, its export.

nbgrader is used as a library, in one process: starting its command line costs two seconds a
time. What runs is the same as its commands run, with the same ``nbgrader_config.py``.
"""

from __future__ import annotations

import dataclasses
import datetime
import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps.api import NbGraderAPI
from nbgrader.converters import Autograde, GenerateAssignment, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.plugins import ExportPlugin
from nbgrader.utils import capture_log, parse_utc, temp_attrs
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.course import assignment as plans
from autograder.course.assignment import Assignment
from autograder.course.course import CONFIG, SETTINGS, Course
from autograder.grade import points
from autograder.grade.outcome import Outcome
from autograder.grade.points import CellMark
from autograder.nbgrader import graded
from autograder.safe_csv import write_csv
from autograder.storage import private_folder
from ringside.errors import RingsideError

COLUMNS = (
    "assignment", "student", "last_name", "first_name", "submitted", "late_seconds",
    "raw_score", "late_penalty", "score", "max_score", "needs_manual_grade",
    "missing", "by_hand", "comments",
)  # fmt: skip


LOCK_PATIENCE_S = 5.0  # formgrader and nbgrader hold the gradebook for moments only
ROOM_BYTES = 1 << 20
_TABLES = {"assignment", "student", "submitted_assignment", "submitted_notebook", "grade"}


class GradebookError(RingsideError):
    """nbgrader refused, and the message is its own; or the gradebook can't be used."""


def check(course: Course, *, write: bool) -> None:
    """Look whether the gradebook can be read, or written; a new course has none, which is fine.

    Raises:
        GradebookError: it is no gradebook, or locked, or can't be written.
    """
    path = course.database
    if path.exists() and not os.access(path, os.R_OK | (os.W_OK if write else 0)):
        raise _refused(path, "unable to open it" if not write else "it is readonly")
    if write and path.parent.is_dir():
        room = os.statvfs(path.parent)
        if room.f_bavail * room.f_frsize < ROOM_BYTES:
            raise _refused(path, "No room is left on the disk")
    if not path.is_file():
        if graded.any_written(course):
            raise _refused(path, "it is gone, and grades were written into it")
        return
    try:
        book = sqlite3.connect(path, timeout=LOCK_PATIENCE_S, isolation_level=None)
        try:
            book.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            tables = {str(row[0]) for row in book.execute("SELECT name FROM sqlite_master")}
            missing = sorted(_TABLES - tables)
            used = any(book.execute(f'SELECT 1 FROM "{t}" LIMIT 1').fetchall()
                       for t in sorted(_TABLES & tables))  # fmt: skip
            book.execute("ROLLBACK")
        finally:
            book.close()
    except sqlite3.Error as error:
        raise _refused(path, str(error)) from error
    # Tables that are missing from an empty one are those of a start that was interrupted.
    if missing and (used or graded.any_written(course)):
        raise _refused(path, f"it has no table {', '.join(missing)}")


def _refused(path: Path | str, why: str) -> GradebookError:
    """A fault of the gradebook: the file, the cause, the cure."""
    again = "then start the command again: what was graded is kept."
    if "locked" in why:
        cure = "Another program holds it: let `nbgrader` or formgrader end, or end it"
    elif "room" in why or "full" in why:
        cure = "Free some room there"
    elif "readonly" in why or "unable to open" in why:
        cure = "Make it writable for this account"
    else:
        cure = "Put back a copy of it, or move it away and run `autograder build`"
    return GradebookError(f"{path} can't be used: {why}. {cure}, {again}")


@contextmanager
def tools_on_path() -> Iterator[None]:
    """nbgrader starts `alembic` by name, so the environment's bin must be on PATH."""
    before = os.environ.get("PATH", "")
    bin_folder = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join(filter(None, [bin_folder, before]))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def configuration(course: Course) -> Config:
    """The course's nbgrader settings, with absolute folders."""
    folder = course.root if (course.root / CONFIG).is_file() else course.kit
    config = PyFileConfigLoader(CONFIG, path=str(folder)).load_config()
    config.CourseDirectory.update(course.nbgrader_folders)
    return config


def _call(action: Callable[[], dict[str, Any]]) -> str:
    """Run one nbgrader step quietly; its log is returned, or raised where it failed."""
    with tools_on_path():
        answer = action()
    log = str(answer.get("log") or "")
    if not answer["success"]:
        said = (log + "\n" + str(answer.get("error") or "")).strip()
        # nbgrader says of each fault of its database that it wants an upgrade.
        for why in ("database is locked", "database or disk is full", "readonly database"):
            if f"OperationalError) {why}" in said or f"write a {why}" in said:
                raise _refused("The gradebook", why)
        raise GradebookError(said)
    return log


@contextmanager
def _quiet(level: int = logging.CRITICAL) -> Iterator[None]:
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


def register(assignment: Assignment, course: Course, scratch: Path) -> None:
    """Tell the course's gradebook of the assignment's cells; the release stays as it is."""
    private_folder(course.build)
    config, coursedir = _directory(
        course,
        release_directory=os.path.relpath(scratch / "release", course.root),
    )
    _generate(assignment.name, config, coursedir)
    tell(course)


def _generate(assignment: str, config: Config, coursedir: CourseDirectory) -> None:
    coursedir.assignment_id = assignment
    converter = GenerateAssignment(coursedir=coursedir, config=config)
    converter.force = True
    with _quiet():
        _call(lambda: capture_log(converter))


@contextmanager
def open_gradebook(course: Course) -> Iterator[Any]:
    """The course's gradebook, opened and closed.

    Raises:
        GradebookError: it is no gradebook, or locked, or can't be written.
    """
    check(course, write=False)
    try:
        with tools_on_path(), Gradebook(f"sqlite:///{course.database}", "ringside") as book:
            yield book
    except Exception as error:
        cause = getattr(error, "orig", None)  # SQLAlchemy's errors wrap those of SQLite
        if not isinstance(cause, sqlite3.Error):
            raise
        raise _refused(course.database, str(cause)) from error


def autograde(course: Course, assignment: str, student: str = "*") -> str:
    """nbgrader's autograde, for one student or all; gives its log."""
    check(course, write=True)
    return _convert(Autograde, course, assignment, student)


def generate_feedback(course: Course, assignment: str, student: str = "*") -> str:
    """nbgrader's generate_feedback, for one student or all; gives its log."""
    return _convert(GenerateFeedback, course, assignment, student)


def _convert(converter: Any, course: Course, assignment: str, student: str) -> str:
    config, coursedir = _directory(course)
    with temp_attrs(coursedir, assignment_id=assignment, student_id=student), _quiet():
        step = converter(coursedir=coursedir, config=config)
        step.force = True
        return _call(lambda: capture_log(step))


def api(course: Course) -> NbGraderAPI:
    """nbgrader's own view of the course: what its formgrader shows."""
    config, coursedir = _directory(course)
    with _quiet():
        return NbGraderAPI(coursedir=coursedir, config=config)


def tell(course: Course) -> None:
    """Let the gradebook know the course's due dates and extensions; nothing where there is none."""
    from autograder.submission import late  # which stands on this module

    if course.database.is_file():
        with open_gradebook(course) as book:
            late.tell(course, book)


def _recorded_due(course: Course, assignment: str) -> datetime.datetime | None:
    if not course.database.is_file():
        return None
    with open_gradebook(course) as book:
        try:
            due: datetime.datetime | None = book.find_assignment(assignment).duedate
        except MissingEntry:
            return None
    return due


def other_due(course: Course, plan: Assignment) -> str:
    """What to say where the gradebook has another due date than the assignment, else nothing."""
    recorded = _recorded_due(course, plan.name)
    wanted = plan.due_utc
    if wanted is None or recorded is None or wanted == recorded:
        return ""
    return (
        f"{plan.name} is due {recorded} UTC by the gradebook, which goes first; {SETTINGS} or its "
        f"assignment.toml says {wanted} UTC. To take that: "
        f'nbgrader db assignment add {plan.name} --duedate "{wanted} UTC"'
    )


def set_due(course: Course, assignment: str, due: datetime.datetime) -> None:
    """Write the due date into the gradebook, where nbgrader and its formgrader keep it."""
    with open_gradebook(course) as book:
        book.update_or_create_assignment(assignment, duedate=parse_utc(due.isoformat()))


def name_students(course: Course, names: Mapping[str, tuple[str, str]]) -> None:
    """Write each student's first and last name into the gradebook."""
    with open_gradebook(course) as book:
        for student, (first, last) in names.items():
            book.update_or_create_student(student, first_name=first, last_name=last)


def cell_scores(book: Any, assignment: str, student: str) -> dict[str, float]:
    """A submission's points by grade cell, extra credit included."""
    try:
        submission = book.find_submission(assignment, student)
    except MissingEntry:
        return {}
    return {
        grade.name: float(grade.score or 0.0)
        for notebook in submission.notebooks
        for grade in notebook.grades
    }


def cell_marks(book: Any, plan: Assignment, student: str) -> dict[str, CellMark] | None:
    """What the gradebook says of each part of a submission; None where it knows none.

    A module's points stand in the cell that checks it, and comments on it in its own cell.
    """
    try:
        submission = book.find_submission(plan.name, student)
    except MissingEntry:
        return None
    grades = {grade.name: grade for each in submission.notebooks for grade in each.grades}
    comments = {
        comment.name: str(comment.manual_comment or "").strip()
        for each in submission.notebooks
        for comment in each.comments
    }
    extra = {module.name for module in plan.modules if module.extra}
    cells = {module.name: f"check_{module.name}" for module in plan.modules}
    cells |= {run.name: run.name for run in plan.runs}
    cells |= {paragraph.name: paragraph.name for paragraph in plan.paragraphs}
    return {
        name: _cell_mark(grades[cell], comments.get(name, ""), own_extra=name in extra)
        for name, cell in cells.items()
        if cell in grades
    }


def late_penalty(book: Any, assignment: str, student: str) -> float:
    """What lateness took off, when the submission was autograded."""
    try:
        found = book.find_submission(assignment, student).late_submission_penalty
    except MissingEntry:
        return 0.0
    return round(float(found or 0.0), 4)


def _cell_mark(grade: Any, comment: str, *, own_extra: bool) -> CellMark:
    given = grade.manual_score is not None or grade.auto_score is not None
    return CellMark(
        points=round(float(grade.score), 4) if given else None,
        by_hand=grade.manual_score is not None or bool(grade.extra_credit and not own_extra),
        waits=bool(grade.needs_manual_grade),
        comment=comment,
    )


def recorded(
    book: Any, course: Course, plan: Assignment, student: str, outcome: Outcome | None = None
) -> Outcome | None:
    """A submission with what the gradebook says of it; None where it knows none.

    Args:
        outcome: what the suites say now; None for what was recorded with the points.
    """
    cells = cell_marks(book, plan, student)
    if cells is None:
        return None
    if outcome is None:
        record = graded.read(course, plan.name, student)
        outcome = Outcome(student, "graded") if record is None else record.outcome
    return dataclasses.replace(outcome, cells=cells)


def with_marks(course: Course, plan: Assignment, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with what the gradebook says of them, where it knows them."""
    with open_gradebook(course) as book:
        return [recorded(book, course, plan, each.student, each) or each for each in outcomes]


def with_marks_by_hand(
    course: Course, plan: Assignment, outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """The outcomes with what people gave: other points are those of the suites as they are now."""
    if not course.database.is_file():
        return list(outcomes)
    texts = {paragraph.name for paragraph in plan.paragraphs}
    return [
        dataclasses.replace(
            each,
            cells={n: c for n, c in (each.cells or {}).items() if c.by_hand or n in texts},
        )
        for each in with_marks(course, plan, outcomes)
    ]


def rows(book: Any, assignments: list[str], students: list[str]) -> list[dict[str, object]]:
    """One row per student and assignment, for the CSV and the tables."""
    found: list[dict[str, object]] = []
    for assignment in book.assignments:
        if assignments and assignment.name not in assignments:
            continue
        for student in book.students:
            if students and student.id not in students:
                continue
            found.append(_row(book, assignment, student))
    return found


def _row(book: Any, assignment: Any, student: Any) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(COLUMNS, "")
    row |= {
        "assignment": assignment.name,
        "student": student.id,
        "last_name": student.last_name or "",
        "first_name": student.first_name or "",
        "max_score": assignment.max_score,
        "raw_score": 0.0,
        "late_penalty": 0.0,
        "score": 0.0,
    }
    try:
        submission = book.find_submission(assignment.name, student.id)
    except MissingEntry:
        return row
    if not _is_graded(submission):  # a score of nothing would be taken for a zero
        ungraded = dict.fromkeys(("raw_score", "late_penalty", "score"), "")
        return row | ungraded | {"needs_manual_grade": "yes"}
    penalty = submission.late_submission_penalty or 0.0
    return row | {
        "submitted": "" if submission.timestamp is None else submission.timestamp.isoformat(),
        "late_seconds": int(submission.total_seconds_late),
        "raw_score": round(submission.score, 4),
        "late_penalty": round(penalty, 4),
        "score": round(max(0.0, submission.score - penalty), 4),
        "needs_manual_grade": "yes" if submission.needs_manual_grade else "no",
    }


def _is_graded(submission: Any) -> bool:
    """Whether every cell that the grader gives points for has some, or a person's."""
    return all(
        grade.auto_score is not None or grade.manual_score is not None
        for notebook in submission.notebooks
        for grade in notebook.grades
        if getattr(grade.cell, "cell_type", "") == "code"
    )


def ask_for_a_person(course: Course, assignment: str, student: str) -> None:
    """Mark the cells that have no points yet as waiting: they must not pass for zeros."""
    with open_gradebook(course) as book:
        for notebook in book.find_submission(assignment, student).notebooks:
            for grade in notebook.grades:
                if grade.auto_score is None and grade.manual_score is None:
                    grade.needs_manual_grade = True
        book.db.commit()


class SafeCsvExport(ExportPlugin):  # type: ignore[misc]
    """`nbgrader export`: grades as CSV, safe to open in a spreadsheet.

    Each row says what is missing from its grade, and what a person gave and wrote.
    """

    course: Course | None = None  # None: the one that nbgrader works in
    partial = False  # no score where a grade is unfinished

    def export(self, gradebook: Any) -> None:
        path = Path(self.to or "grades.csv")
        self.log.info("Exporting grades to %s", path)
        course = self.course or Course.of_root(self.parent.coursedir.root)
        table = rows(
            gradebook, [str(each) for each in self.assignment], [str(s) for s in self.student]
        )
        for row in table:
            self._complete(gradebook, course, row)
        write_csv(path, COLUMNS, table)

    def _complete(self, book: Any, course: Course, row: dict[str, object]) -> None:
        name, student = str(row["assignment"]), str(row["student"])
        if name not in plans.known(course):
            return
        plan = plans.load(name, course)
        outcome = recorded(book, course, plan, student)
        if outcome is None:
            return
        lacks = points.missing(plan, outcome)
        if lacks and self.partial:
            row |= dict.fromkeys(("raw_score", "late_penalty", "score"), "")
        elif lacks:
            self.log.warning("%s, %s is unfinished: %s", name, student, "; ".join(lacks))
        account = outcome.account(plan)
        row |= {
            "missing": "; ".join(lacks),
            "by_hand": "; ".join(points.hand_points(account)),
            "comments": "\n".join(points.hand_comments(account)),
        }


def unfinished(course: Course, plan: Assignment) -> dict[str, list[str]]:
    """What each student's grade lacks; nobody whose grade is complete."""
    found = {}
    with open_gradebook(course) as book:
        for student in book.students:
            outcome = recorded(book, course, plan, student.id)
            if outcome is not None and (lacks := points.missing(plan, outcome)):
                found[str(student.id)] = lacks
    return found


def export(course: Course, assignment: str, path: Path, *, partial: bool = False) -> Path:
    """nbgrader's export through our plugin."""
    plugin = SafeCsvExport(to=str(path), assignment=[assignment])
    plugin.course, plugin.partial = course, partial
    with _quiet(), open_gradebook(course) as book:
        plugin.export(book)
    return path
