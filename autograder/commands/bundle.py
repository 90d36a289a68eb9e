"""``autograder bundle``: the students' tree, without solutions and autograder."""

from __future__ import annotations

import argparse
from pathlib import Path

from autograder.course.course import Course

NAME = "bundle"
ABOUT = "make the students' tree, without solutions and autograder"


def add_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/ringside-students")
    sub.add_argument("--zip", action="store_true", help="pack it too")


def run(options: argparse.Namespace) -> int:
    from autograder.authoring import bundle

    course = Course.here()
    folder = options.to or course.build / "ringside-students"
    if options.zip:
        bundle.zip_beside(folder)  # refused before the work
    print(f"The students' tree: {bundle.make(course, folder)}")
    if options.zip:
        print(f"Packed: {bundle.pack(folder)}")
    return 0
