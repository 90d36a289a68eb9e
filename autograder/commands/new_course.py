"""``autograder new-course``: a course's own folder outside the kit."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from autograder.course import assignment as plans
from autograder.course.course import Course

NAME = "new-course"
ABOUT = "make a course's folder outside the kit"


def add_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("folder", type=Path, metavar="FOLDER", help="new, or empty")


def run(options: argparse.Namespace) -> int:
    from autograder.authoring import new_course

    course = new_course.make(options.folder, Course.here().kit)
    missing = [name for name in plans.known(course) if not (course.releases / name).is_dir()]
    print(f"The course: {course.root}")
    if missing:
        print(f"Not built yet: {', '.join(missing)}. `autograder build` there makes them.")
    if other := os.environ.get("RINGSIDE_COURSE"):
        print(f"RINGSIDE_COURSE is set: commands work in {other}, not here, until you `unset` it.")
    print(f"Next: cd {course.root}; README.md says what is typed there.")
    return 0
