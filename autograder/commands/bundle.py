"""``autograder bundle``: the students' tree, without solutions and autograder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.progress import waiting


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "bundle", "make the students' tree, without solutions and autograder")
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/ringside-students")
    sub.add_argument("--zip", action="store_true", help="pack it too")
    sub.add_argument(
        "--also-future",
        action="store_true",
        help="hand out all assignments that [released] in course.toml lists, whatever their date",
    )


def run(options: argparse.Namespace) -> int:
    with waiting("starting"):
        from autograder.course import assignment as plans
        from autograder.publish import build, bundle
        from autograder.terminal import say

    course = Course.here()
    listing = bundle.listed(course, also_future=options.also_future)
    folder = options.to or course.build / "ringside-students"
    if options.zip:
        bundle.zip_beside(folder)  # refused before the work
    with waiting("making the tree, and looking for hidden lines in it"):
        tree = bundle.make(course, folder, names=bundle.handed_out(listing))
    print(f"The students' tree: {tree}")
    print(listing.sentence)
    print(bundle.about_assistants(course))
    for name in listing.given:
        if warning := build.other_date(plans.load(name, course), course):
            say(warning)
    if options.zip:
        with waiting("packing it"):
            packed = bundle.pack(folder)
        print(f"Packed: {packed}")
    return 0
