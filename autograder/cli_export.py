"""``autograder export``: marks for a learning platform."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autograder import assignment as plans
from autograder import cli_grade, gradebook, late
from autograder.assignment import Assignment
from autograder.course import Course
from autograder.exports import canvas, gradescope, marks, moodle
from autograder.exports.marks import ExportError, Mark
from autograder.exports.roster import Roster
from autograder.outcome import Outcome
from autograder.storage import file_to_write, folder_to_write


def export(options: argparse.Namespace) -> int:
    """`autograder export`"""
    course = Course.here()
    plan = plans.load(options.assignment, course)
    if options.roster is not None and options.to not in ("canvas", "moodle"):
        raise ExportError(f"--roster is for Canvas and Moodle; {options.to} needs none.")
    (folder_to_write if options.to == "gradescope" else file_to_write)(options.out)
    if options.to == "nbgrader":
        if not course.database.is_file():
            raise ExportError(
                f"There is no gradebook at {course.database}: "
                f"`nbgrader autograde {plan.name}` writes grades into one."
            )
        gradebook.export(course, plan.name, options.out)
        print(f"nbgrader's gradebook: {options.out}")
        return 0
    paths = options.paths or cli_grade.collected(course, plan)
    outcomes = cli_grade.grade_paths(plan, paths, options, course)
    found = _marks(plan, outcomes, options, course)
    given = _write(plan, found, outcomes, options)
    which = "before lateness" if options.raw else "lateness taken off"
    print(f"{given} scores ({which}): {options.out}")
    waiting = [mark.student for mark in found if mark.raw_score is None]
    if waiting:
        print(
            f"autograder: {len(waiting)} without a score, since the grader failed: "
            f"{', '.join(waiting[:20])}. Grade them again.",
            file=sys.stderr,
        )
    known = {mark.student for mark in found}
    absent = [outcome.student for outcome in outcomes if outcome.student not in known]
    if absent:
        print(
            f"autograder: {len(absent)} left out, who handed in and are not in the gradebook: "
            f"{', '.join(absent[:20])}. `nbgrader autograde {plan.name}` grades who has "
            f"{plan.notebook}; naming the folder ({course.build / 'submitted'}) takes the suites' "
            "scores of all.",
            file=sys.stderr,
        )
    return 2 if waiting or absent else 0


def _marks(
    plan: Assignment, outcomes: Sequence[Outcome], options: argparse.Namespace, course: Course
) -> list[Mark]:
    accounts = late.of_assignment(course, plan.name)
    if not options.paths:
        recorded = marks.from_gradebook(course, plan, outcomes, accounts)
        if recorded:
            print("Scores are the gradebook's: grades and corrections by hand are in them.")
            return recorded
    print("Scores are the suites': texts that a person grades are not in them.")
    return marks.from_outcomes(plan, outcomes, accounts)


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
    write = canvas.write if options.to == "canvas" else moodle.write
    return write(
        options.out,
        plan,
        found,
        roster=None if options.roster is None else Roster.read(options.roster),
        column=options.column,
        raw=options.raw,
        leave_out=options.leave_out_unmatched,
    )
