"""``autograder new-assignment``: one folder that builds, verifies and grades, to be changed."""

from __future__ import annotations

import argparse
import os
from typing import Any

from autograder.course.course import Course
from ringside.command_line import subparser


def add_parser(commands: Any) -> None:
    sub = subparser(
        commands,
        "new-assignment",
        "make an assignment that builds, verifies and grades, to be changed",
    )
    sub.add_argument("name", metavar="NAME", help="like a14_prefix")
    sub.add_argument("--torch", action="store_true", help="its module is of torch.distributed")


def run(options: argparse.Namespace) -> int:
    from autograder.author import new_assignment

    course = Course.here()
    name = options.name
    print(os.path.relpath(new_assignment.make(name, course, torch=options.torch)))
    print(
        "An example stands there: make it yours (CONTRIBUTING.md tells how). It works as it is:\n"
        f"  autograder build {name}\n"
        f"  autograder verify {name}\n"
        f"  autograder grade {name} {os.path.relpath(course.solution(name))}"
    )
    return 0
