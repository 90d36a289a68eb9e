"""``autograder new-course``: a course's own folder outside the kit."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from autograder.course import assignment as plans
from autograder.course import settings
from autograder.course.course import Course
from ringside.command_line import subparser


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "new-course", "make a course's folder outside the kit")
    sub.add_argument("folder", type=Path, metavar="FOLDER", help="new, or empty")
    sub.add_argument(
        "--units",
        default="",
        metavar="01,03,05",
        help="teach these units: course.toml lists their assignments and no others",
    )


def run(options: argparse.Namespace) -> int:
    from autograder.author import new_course

    units = [unit.strip() for unit in options.units.split(",") if unit.strip()]
    course = new_course.make(options.folder, Course.here().kit, units)
    names = settings.term(course).listed or plans.known(course)
    missing = [name for name in names if not (course.releases / name).is_dir()]
    print(f"The course: {course.root}")
    if missing:
        print(f"Not built yet: {', '.join(missing)}. `autograder build` there makes them.")
    if other := os.environ.get("RINGSIDE_COURSE"):
        print(f"RINGSIDE_COURSE is set: commands work in {other}, not here, until you `unset` it.")
    print(f"Next: cd {course.root}; README.md says what is typed there.")
    return 0
