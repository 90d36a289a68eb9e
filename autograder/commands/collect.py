"""``autograder collect ASSIGNMENT DOWNLOAD``: a platform's download, put where nbgrader looks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder import terminal
from autograder.commands import options as shared
from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.progress import waiting


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "collect", "put a platform's download where nbgrader looks")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="the download as it comes, or anything that `grade` takes",
    )
    shared.add_layout(sub)
    shared.add_worksheet(sub)


def run(options: argparse.Namespace) -> int:
    from autograder.gradebook.nbgrader import release
    from autograder.platforms import collect_download
    from ringside.units import format_count

    course = Course.here()
    plan = plans.load(options.assignment, course)
    submissions = shared.take(plan, options.paths, course, options, options.layout)
    with waiting("copying the submissions"):
        release.register_if_new(plan, course)  # the gradebook, which is told of people, and cells
        counts = collect_download.collect(plan, submissions, course)
    summary = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    number = format_count(sum(counts.values()), "submission")
    print(f"{course.build / 'submitted'}: {number} ({summary}).")
    if counts["replaced"]:
        print(f"What was replaced is kept in {course.build / 'replaced'}.")
    for submission in submissions:
        for note in (*submission.intake, submission.rejected):
            if note:
                terminal.say(submission.student, note)
    print(f"Next: nbgrader autograde {plan.name}")
    return 2 if any(submission.rejected for submission in submissions) else 0
