"""``autograder report``: scores, failed tests and similar submissions of a class."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder import terminal
from autograder.commands import options as shared
from autograder.course import assignment as plans
from autograder.course.course import Course
from autograder.storage import file_to_write
from ringside.command_line import subparser
from ringside.progress import waiting


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "report", "scores, failed tests, similar submissions of a class")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: build/submitted")
    shared.add_layout(sub)
    shared.add_worksheet(sub)
    sub.add_argument(
        "--html", type=file_to_write, metavar="FILE", help="write one page with everything"
    )
    sub.add_argument("--csv", type=file_to_write, metavar="FILE", help="write the scores")
    sub.add_argument(
        "--against",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="submissions of an earlier year, or solutions from elsewhere, to compare with",
    )
    shared.add_grading(sub)


def run(options: argparse.Namespace) -> int:
    from autograder.grade import scores_csv
    from autograder.grade.class_grading import say_what_to_look_at
    from autograder.gradebook.report import earlier_sources, page, report

    course = Course.here()
    plan = plans.load(options.assignment, course)
    sources = earlier_sources.modules(plan, options.against, course)
    outcomes = shared.grade_paths(plan, options.paths, course, options)
    if not options.paths:
        from autograder.gradebook.nbgrader import (  # and nbgrader, which takes seconds
            grades,
            settled,
        )

        settled.settle(course, [plan.name])
        outcomes = grades.with_marks_by_hand(course, plan, outcomes)
    with waiting("comparing the submissions"):
        summary = report.of_class(plan, outcomes, course, sources)
    report.print_report(terminal.console(), summary)
    if options.html is not None:
        page.write(options.html, summary)
        print(f"The report as a page: {options.html}")
    if options.csv is not None:
        scores_csv.write(options.csv, plan, outcomes)
    return 0 if say_what_to_look_at(outcomes) else 2
