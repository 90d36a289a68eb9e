"""``autograder total``: the whole course, weighted by course.toml."""

from __future__ import annotations

import argparse
from typing import Any

from autograder import terminal
from autograder.course.course import Course
from autograder.storage import file_to_write
from ringside.command_line import subparser


def add_parser(commands: Any) -> None:
    sub = subparser(
        commands, "total", "the course's total of each student, weighted by course.toml"
    )
    sub.add_argument("--csv", type=file_to_write, metavar="FILE", help="write the table")


def run(options: argparse.Namespace) -> int:
    from autograder.gradebook import total

    totals = total.of_course(Course.here())
    terminal.console().print(total.table(totals))
    if totals.later:
        print(
            f"Not due yet, or handed in by nobody, so not in the total: {', '.join(totals.later)}"
        )
    for row in totals.rows:
        if row.missing:
            print(terminal.printable(f"{row.student} has no total yet: {row.missing}"))
    if options.csv is not None:
        total.write(options.csv, totals)
        print(f"The table: {options.csv}")
    return 0
