"""``autograder export``: marks for a learning platform."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder import platforms
from autograder.commands import options as shared
from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.command_line import subparser


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "export", "marks for Canvas, Moodle or Gradescope, or a CSV")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: build/submitted")
    shared.add_layout(sub)
    sub.add_argument("--to", choices=platforms.KINDS, required=True, help="for which platform")
    sub.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="a folder, for Gradescope"
    )
    sub.add_argument(
        "--roster", type=Path, metavar="FILE", help="Canvas' export, or Moodle's grading worksheet"
    )
    shared.add_timezone(sub)
    sub.add_argument("--column", metavar="NAME", help="the assignment's column; default: its title")
    sub.add_argument(
        "--new-column",
        action="store_true",
        help="Canvas may make a new assignment: its column is not in the roster",
    )
    sub.add_argument(
        "--partial",
        action="store_true",
        help="export although grades are unfinished; those stay without a score, and are named",
    )
    sub.add_argument("--raw", action="store_true", help="scores before lateness is taken off")
    sub.add_argument(
        "--leave-out-unmatched", action="store_true", help="students who are not in the roster"
    )
    sub.add_argument(
        "--visibility",
        choices=platforms.VISIBILITY,
        default="after_published",
        help="when students see Gradescope's tests (%(default)s)",
    )
    shared.add_grading(sub)


def run(options: argparse.Namespace) -> int:
    from autograder.platforms.export import Wanted, check, export, export_gradebook

    request = Wanted(
        to=options.to,
        out=options.out,
        roster=options.roster,
        column=options.column,
        new_column=options.new_column,
        partial=options.partial,
        raw=options.raw,
        leave_out_unmatched=options.leave_out_unmatched,
        visibility=options.visibility,
    )
    course = Course.here()
    plan = plans.load(options.assignment, course)
    check(request)
    if request.to == "nbgrader":
        export_gradebook(plan, request, course)
        print(f"nbgrader's gradebook: {request.out}")
        return 0
    outcomes = shared.grade_paths(plan, options.paths, course, options)
    number = export(plan, outcomes, request, course, collected=not options.paths)
    which = "before lateness" if request.raw else "lateness taken off"
    print(f"{number} scores ({which}): {request.out}")
    return 0
