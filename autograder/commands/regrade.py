"""``autograder regrade``: whose points a mended suite or an extension changes; written on a yes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from autograder import terminal
from autograder.commands import options as shared
from autograder.course import assignment as plans
from autograder.course import teams
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.progress import waiting
from ringside.units import format_count

if TYPE_CHECKING:
    from rich.console import Console


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "regrade", "show whose points a mended suite changes, and write them")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("students", nargs="*", metavar="STUDENT", help="default: the whole class")
    group = sub.add_mutually_exclusive_group()
    group.add_argument("--yes", action="store_true", help="write without asking")
    group.add_argument("--dry-run", action="store_true", help="show only, never write")
    shared.add_grading(sub)


def run(options: argparse.Namespace) -> int:
    from autograder.course import database
    from autograder.grade import class_grading
    from autograder.gradebook import regrade

    course = Course.here()
    plan = plans.load(options.assignment, course)
    database.check(course, write=not options.dry_run)
    folders = course.submissions(plan.name)
    if options.students:
        names = {folder.parent.name for folder in folders}
        if absent := sorted(set(options.students) - names):
            raise AssignmentError(f"{', '.join(absent)} handed in no {plan.name}.")
        students = teams.with_partners(course, plan.name, options.students)
        folders = [folder for folder in folders if folder.parent.name in students]
    outcomes = shared.grade_paths(plan, folders, course, options, "submission")
    differences = regrade.compare(plan, outcomes, course)
    screen = terminal.console()
    regrade.show(screen, plan, differences)
    if differences.changes and not options.dry_run:
        if not (options.yes or _asked(screen, len(differences.students()))):
            terminal.say("the gradebook stays as it is.")
            return 1
        with waiting("writing the gradebook"):
            renewed = regrade.write(plan, differences.students(), course)
        screen.print(f"Written for {format_count(len(differences.students()), 'student')}.")
        if renewed:
            screen.print(
                f"{format_count(len(renewed), 'feedback page')} made anew. Where feedback was "
                f"released: `nbgrader release_feedback {plan.name}` releases the new ones."
            )
    for _, who, why in class_grading.ungraded(differences.failed):
        terminal.say(f"{who} keeps the earlier grade", why)
    return 2 if differences.failed else 0


def _asked(screen: Console, students: int) -> bool:
    """Whether a person says yes; nobody there says no."""
    from rich.prompt import Confirm

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        terminal.say("nobody to ask; --yes writes without asking.")
        return False
    question = f"Write the gradebook for {format_count(students, 'student')}?"
    return bool(Confirm.ask(question, console=screen, default=False))
