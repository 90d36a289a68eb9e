"""`autograder export`: what goes to a platform, and what is said of grades that are unfinished."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.course import excused, late
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.grade import points
from autograder.grade.outcome import Outcome
from autograder.gradebook import marks
from autograder.gradebook.marks import ExportError, Mark
from autograder.gradebook.nbgrader import csv_export, grades, settled
from autograder.platforms.canvas import marks as canvas
from autograder.platforms.gradescope import results as gradescope
from autograder.platforms.moodle import marks as moodle
from autograder.platforms.roster import Roster
from autograder.storage import file_to_write, folder_to_write
from autograder.terminal import printable, say
from ringside.units import format_count

CLOSE = "`autograder decide ASSIGNMENT STUDENT all --points N --why TEXT`"


@dataclass(frozen=True)
class Wanted:
    """What is to be exported.

    Attributes:
        to: one of `exports.KINDS`.
        out: a file; a folder for Gradescope.
        roster: Canvas' export, or Moodle's grading worksheet.
        column: the assignment's in the roster; None: its title.
        new_column: Canvas may make a new assignment.
        partial: unfinished grades stay without a score; else there must be none.
        raw: scores before lateness is taken off.
        leave_out_unmatched: students who are not in the roster.
        visibility: when students see Gradescope's tests.
    """

    to: str
    out: Path
    roster: Path | None = None
    column: str | None = None
    new_column: bool = False
    partial: bool = False
    raw: bool = False
    leave_out_unmatched: bool = False
    visibility: str = "after_published"


def check(wanted: Wanted) -> None:
    """Refuse what can't be written, before the work.

    Raises:
        ExportError: options that don't go together.
        OSError: nothing can be written there.
    """
    if wanted.roster is not None and wanted.to not in ("canvas", "moodle"):
        raise ExportError(f"--roster is for Canvas and Moodle; {wanted.to} needs none.")
    if wanted.new_column and wanted.to != "canvas":
        raise ExportError("--new-column is for Canvas, which makes an assignment of a new column.")
    (folder_to_write if wanted.to == "gradescope" else file_to_write)(wanted.out)


def export(
    plan: Assignment,
    outcomes: Sequence[Outcome],
    wanted: Wanted,
    course: Course,
    *,
    collected: bool,
) -> int:
    """Write the scores for a platform.

    Args:
        collected: the outcomes are those of nbgrader's tree, so the gradebook's points go first.

    Returns:
        How many students have a score in it.

    Raises:
        ExportError: grades are unfinished, or the roster doesn't fit.
    """
    student_marks, results = _marks(plan, outcomes, course, collected=collected)
    student_marks = marks.excuse(plan, student_marks, excused.of_assignment(course, plan.name))
    if free := [mark.student for mark in student_marks if mark.excused]:
        print(f"Excused, without a score: {printable(', '.join(free))}.")
    _about_missing(
        {m.student: m.missing for m in student_marks if m.missing}, partial=wanted.partial
    )
    return _write(plan, student_marks, results, wanted)


def export_gradebook(plan: Assignment, wanted: Wanted, course: Course) -> None:
    """nbgrader's own export of the gradebook.

    Raises:
        ExportError: there is no gradebook, or grades are unfinished.
    """
    if not course.database.is_file():
        raise ExportError(
            f"There is no gradebook at {course.database}: "
            f"`nbgrader autograde {plan.name}` writes grades into one."
        )
    settled.settle(course, [plan.name])
    lacks = grades.unfinished(course, plan)
    _about_missing({who: "; ".join(gaps) for who, gaps in lacks.items()}, partial=wanted.partial)
    csv_export.export(course, plan.name, wanted.out, partial=wanted.partial)


def _about_missing(lacks: Mapping[str, str], *, partial: bool) -> None:
    """Refuse where a grade is unfinished, or name those that go out without a score.

    Raises:
        ExportError: there are some, and nobody said that they may be left out.
    """
    if not lacks:
        return
    number = format_count(len(lacks), "grade")
    are = "is" if len(lacks) == 1 else "are"
    rejected = any(why.startswith("rejected") for why in lacks.values())
    listed = "".join(f"\n  {printable(who)}: {printable(why)}" for who, why in lacks.items())
    if not partial:
        raise ExportError(
            f"{number} {are} unfinished, so nothing is written:{listed}\n"
            "Texts and points by hand: Nbgrader > Formgrader > Manual Grading. "
            + (f"{CLOSE} closes what can't be graded. " if rejected else "")
            + "--partial exports the others, and leaves these without a score."
        )
    print(f"autograder: {number} {are} unfinished and left blank:{listed}", file=sys.stderr)


def _marks(
    plan: Assignment, outcomes: Sequence[Outcome], course: Course, *, collected: bool
) -> tuple[list[Mark], Sequence[Outcome]]:
    """The marks, and the outcomes with what the gradebook says of them."""
    if collected and course.database.is_file():
        settled.settle(course, [plan.name])
    accounts = late.of_assignment(course, plan.name)
    if collected and course.database.is_file():
        results = grades.with_marks(course, plan, outcomes)
        recorded = marks.from_gradebook(course, plan, results, accounts)
        if recorded:
            print(f"Scores are the gradebook's, of {plan.max_score:g} points: texts, points and "
                  "corrections by hand are in them.")  # fmt: skip
            return recorded, results
    note = points.where_texts_count(plan)
    print(f"Scores are the suites' and the run's. {note}".rstrip())
    return marks.from_outcomes(plan, outcomes, accounts), outcomes


def _write(
    plan: Assignment,
    found: Sequence[Mark],
    outcomes: Sequence[Outcome],
    wanted: Wanted,
) -> int:
    if wanted.to == "gradescope":
        return gradescope.write(
            wanted.out, plan, found, outcomes, raw=wanted.raw, visibility=wanted.visibility
        )
    if wanted.to == "csv":
        marks.write(wanted.out, found)
        return len([mark for mark in found if mark.raw_score is not None])
    roster = None if wanted.roster is None else Roster.read(wanted.roster)
    if wanted.to == "moodle":
        return moodle.write(
            wanted.out,
            plan,
            found,
            roster=roster,
            column=wanted.column,
            raw=wanted.raw,
            leave_out=wanted.leave_out_unmatched,
        )
    if roster is not None and found:
        _warn(canvas.other_maximum(roster, plan, wanted.column, found[0].max_score))
    count = canvas.write(
        wanted.out,
        plan,
        found,
        roster=roster,
        column=wanted.column,
        new_column=wanted.new_column,
        raw=wanted.raw,
        leave_out=wanted.leave_out_unmatched,
    )
    if canvas.write_comments(wanted.out, found):
        print(f"Canvas imports no comments; by hand were: {canvas.comments_beside(wanted.out)}")
    return count


def _warn(sentence: str) -> None:
    if sentence:
        say(sentence)
