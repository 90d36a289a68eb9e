"""``autograder build``: assignments/ from solutions/."""

from __future__ import annotations

import argparse
from typing import Any

from autograder import terminal
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.progress import waiting


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "build", "make assignments/ from solutions/")
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="all, if none is named")
    sub.add_argument("--check", action="store_true", help="change nothing; status 1 if stale")


def run(options: argparse.Namespace) -> int:
    with waiting("starting nbgrader"):
        from autograder.course import database, late
        from autograder.publish.build import build_all

    course = Course.here()
    names = options.assignments or plans.known(course)
    if not names:
        raise AssignmentError(f"There are no assignments under {course.kit / 'solutions'}.")
    stale_files: dict[str, list[str]] = {}
    lines: list[str] = []
    for number, name in enumerate(names, 1):
        with waiting(f"building {name}, {number} of {len(names)}"):
            stale_files |= build_all(course, [name], check=options.check, say=lines.append)
    for line in lines:
        terminal.say(line)
    if not options.check:
        late.tell(course)
    inside = course.releases.is_relative_to(course.kit)
    folder = course.releases.relative_to(course.kit) if inside else course.releases
    for name, files in stale_files.items():
        if files:
            print(f"{folder}/{name} is stale ({', '.join(files)}): run `autograder build`.")
        else:
            print(f"{folder}/{name}: {'up to date' if options.check else 'built'}")
        if not options.check and (other := database.other_due(course, plans.load(name, course))):
            terminal.say(other)
    return 1 if any(stale_files.values()) else 0
