"""``autograder export``: marks for a learning platform."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

from autograder.commands import grade as cli_grade
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment
from autograder.course.course import Course
from autograder.exports import canvas, gradescope, marks, moodle
from autograder.exports.marks import ExportError, Mark
from autograder.exports.roster import Roster
from autograder.grade import points
from autograder.grade.outcome import Outcome
from autograder.nbgrader import csv_export, graded, grades
from autograder.report import report
from autograder.storage import file_to_write, folder_to_write
from autograder.submission import late
from ringside.units import format_count


def export(options: argparse.Namespace) -> int:
    """`autograder export`"""
    course = Course.here()
    plan = plans.load(options.assignment, course)
    if options.roster is not None and options.to not in ("canvas", "moodle"):
        raise ExportError(f"--roster is for Canvas and Moodle; {options.to} needs none.")
    if options.new_column and options.to != "canvas":
        raise ExportError("--new-column is for Canvas, which makes an assignment of a new column.")
    (folder_to_write if options.to == "gradescope" else file_to_write)(options.out)
    if options.to == "nbgrader":
        return _nbgrader(plan, options, course)
    paths = options.paths or cli_grade.collected(course, plan)
    outcomes = cli_grade.grade_paths(plan, paths, options, course)
    found, known = _marks(plan, outcomes, options, course)
    _about_missing({m.student: m.missing for m in found if m.missing}, partial=options.partial)
    given = _write(plan, found, known, options)
    which = "before lateness" if options.raw else "lateness taken off"
    print(f"{given} scores ({which}): {options.out}")
    return 0


def _nbgrader(plan: Assignment, options: argparse.Namespace, course: Course) -> int:
    if not course.database.is_file():
        raise ExportError(
            f"There is no gradebook at {course.database}: "
            f"`nbgrader autograde {plan.name}` writes grades into one."
        )
    lacks = grades.unfinished(course, plan)
    _about_missing({who: "; ".join(each) for who, each in lacks.items()}, partial=options.partial)
    csv_export.export(course, plan.name, options.out, partial=options.partial)
    print(f"nbgrader's gradebook: {options.out}")
    return 0


def _about_missing(lacks: Mapping[str, str], *, partial: bool) -> None:
    """Refuse where a grade is unfinished, or name those that go out without a score.

    Raises:
        ExportError: there are some, and nobody said that they may be left out.
    """
    if not lacks:
        return
    number = format_count(len(lacks), "grade")
    are = "is" if len(lacks) == 1 else "are"
    listed = "".join(
        f"\n  {report.printable(who)}: {report.printable(why)}" for who, why in lacks.items()
    )
    if not partial:
        raise ExportError(
            f"{number} {are} unfinished, so nothing is written:{listed}\n"
            "Texts and points by hand: Nbgrader > Formgrader > Manual Grading. "
            "--partial exports the others, and leaves these without a score."
        )
    print(f"autograder: {number} {are} unfinished and left blank:{listed}", file=sys.stderr)


def _marks(
    plan: Assignment, outcomes: Sequence[Outcome], options: argparse.Namespace, course: Course
) -> tuple[list[Mark], Sequence[Outcome]]:
    """The marks, and the outcomes with what the gradebook says of them."""
    accounts = late.of_assignment(course, plan.name)
    if not options.paths and course.database.is_file():
        known = grades.with_marks(course, plan, outcomes)
        recorded = marks.from_gradebook(course, plan, known, accounts)
        if recorded:
            print(f"Scores are the gradebook's, of {plan.max_score:g} points: texts, points and "
                  "corrections by hand are in them.")  # fmt: skip
            _warn_of_lateness(plan, recorded, course, accounts)
            return recorded, known
    said = points.where_texts_count(plan)
    print(f"Scores are the suites' and the run's. {said}".rstrip())
    return marks.from_outcomes(plan, outcomes, accounts), outcomes


def _warn_of_lateness(
    plan: Assignment, recorded: Sequence[Mark], course: Course, accounts: Mapping[str, late.Late]
) -> None:
    """Name whose lateness costs something else now than when the gradebook was written."""
    changed = []
    for mark in recorded:
        was = graded.read(course, plan.name, mark.student)
        now = accounts[mark.student].percent if mark.student in accounts else 0.0
        if was is not None and was.late_percent not in (None, now):
            changed.append(report.printable(mark.student))
    if changed:
        print(
            f"autograder: since these were autograded, their lateness has changed: "
            f"{', '.join(changed)}. `autograder regrade {plan.name}` writes it.",
            file=sys.stderr,
        )


def _write(
    plan: Assignment,
    found: Sequence[Mark],
    outcomes: Sequence[Outcome],
    options: argparse.Namespace,
) -> int:
    if options.to == "gradescope":
        return gradescope.write(
            options.out, plan, found, outcomes, raw=options.raw, visibility=options.visibility
        )
    if options.to == "csv":
        marks.write(options.out, found)
        return len([mark for mark in found if mark.raw_score is not None])
    roster = None if options.roster is None else Roster.read(options.roster)
    if options.to == "moodle":
        return moodle.write(
            options.out,
            plan,
            found,
            roster=roster,
            column=options.column,
            raw=options.raw,
            leave_out=options.leave_out_unmatched,
        )
    if roster is not None and found:
        _warn(canvas.other_maximum(roster, plan, options.column, found[0].max_score))
    given = canvas.write(
        options.out,
        plan,
        found,
        roster=roster,
        column=options.column,
        new_column=options.new_column,
        raw=options.raw,
        leave_out=options.leave_out_unmatched,
    )
    if canvas.write_comments(options.out, found):
        print(f"Canvas imports no comments; by hand were: {canvas.comments_beside(options.out)}")
    return given


def _warn(sentence: str) -> None:
    if sentence:
        print(f"autograder: {sentence}", file=sys.stderr)
