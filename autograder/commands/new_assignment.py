"""``autograder new-assignment``: one folder that builds, verifies and grades, to be changed."""

from __future__ import annotations

import argparse
import os

from autograder.course.course import Course

NAME = "new-assignment"
ABOUT = "make an assignment that builds, verifies and grades, to be changed"


def add_options(sub: argparse.ArgumentParser) -> None:
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
