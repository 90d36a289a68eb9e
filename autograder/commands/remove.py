"""``autograder remove``: take a module out of an assignment, everywhere it is named."""

from __future__ import annotations

import argparse
from typing import Any

from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.progress import waiting


def add_parser(commands: Any) -> None:
    sub = subparser(
        commands,
        "remove",
        "take a module out of an assignment, in all places; what goes is kept",
        "example: autograder remove a03_allreduce tree --dry-run",
    )
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("module", metavar="MODULE")
    sub.add_argument("--dry-run", action="store_true", help="say what would change, write nothing")


def run(options: argparse.Namespace) -> int:
    from autograder.author import removal

    course = Course.here()
    plan = plans.load(options.assignment, course)
    with waiting("trying it in a copy"):
        changes = removal.plan_of(plan, options.module, course)
    if options.dry_run:
        print(f"In {course.solution(plan.name)}, nothing is written yet:\n{changes.text}")
        return 0
    backup = removal.apply(changes, course)
    print(f"In {course.solution(plan.name)}:\n{changes.text}")
    print(f"As it was before: {backup}")
    print(f"Next: `autograder build {plan.name}`, then `autograder verify {plan.name}`.")
    return 0
