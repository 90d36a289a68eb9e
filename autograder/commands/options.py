"""Options that several commands have, and what the commands of a class do with them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder.collect.submissions import LAYOUTS, Layout, PathError, Submission
from autograder.course.assignment import Assignment
from autograder.course.course import CONFIG, Course
from autograder.grade import pipeline

if TYPE_CHECKING:
    from autograder.grade.outcome import Outcome


def add_layout(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="what each PATH is: one student's submission; a class, a folder with those of many; "
        "nbgrader's submitted tree; a platform's download. Default: told by the names at its top",
    )


def add_worksheet(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="Moodle's grading worksheet: who the participants are, and when they handed in",
    )
    sub.add_argument(
        "--times",
        type=Path,
        metavar="FILE",
        help="Canvas's list of the submissions, as its API writes it: when they handed in",
    )
    add_timezone(sub)


def add_timezone(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--timezone",
        type=_zone,
        metavar="ZONE",
        help="of times without one, like Europe/Berlin; default for Moodle's: this machine's",
    )


def _zone(text: str) -> ZoneInfo:
    """A time zone of the command line, like Europe/Berlin."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"{text!r} is no time zone like Europe/Berlin"
        raise argparse.ArgumentTypeError(message) from error


def add_grading(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--jobs",
        type=int,
        default=pipeline.cores(),
        metavar="N",
        help="submissions at a time (%(default)s)",
    )
    sub.add_argument(
        "--trust-submissions",
        action="store_true",
        help="run student code without a sandbox, with the rights of this account",
    )


def add_measuring(sub: argparse.ArgumentParser) -> None:
    group = sub.add_argument_group("measured speedup", "on real ranks; it changes no score")
    group.add_argument(
        "--measured",
        action="store_true",
        help="also time what the assignment names, in turns with the reference",
    )
    group.add_argument("--ranks", type=int, metavar="P", help="default: the assignment's")
    group.add_argument(
        "--gpus", action="store_true", default=None, help="modules of torch on a GPU a rank"
    )
    group.add_argument(
        "--nodes", type=int, metavar="N", help="how many of --site's measure at once"
    )


def collected(course: Course, plan: Assignment) -> list[Path]:
    """Where nbgrader has put what was handed in.

    Raises:
        PathError: nothing was collected.
    """
    if not course.submissions(plan.name):
        where = course.root if (course.root / CONFIG).is_file() else course.kit
        raise PathError(
            f"No submission of {plan.name} is collected in {course.build / 'submitted'}: "
            f"run `nbgrader collect {plan.name}` in {where}, or name a folder of submissions."
        )
    return [course.build / "submitted"]


def take(
    plan: Assignment,
    paths: Sequence[Path],
    course: Course,
    options: argparse.Namespace,
    layout: Layout | None,
) -> list[Submission]:
    """The submissions under `paths`, with what the command line says of roster and time zone."""
    from autograder.platforms import intake

    return intake.take(
        plan,
        paths,
        course,
        roster=getattr(options, "roster", None),
        times=getattr(options, "times", None),
        timezone=getattr(options, "timezone", None),
        layout=layout,
    )


def grade_paths(
    plan: Assignment,
    paths: Sequence[Path],
    course: Course,
    options: argparse.Namespace,
    layout: Layout | None = None,
) -> list[Outcome]:
    """Grade all submissions under `paths`; none named: those that were collected."""
    from autograder.grade.class_grading import grade_class

    layout_name = layout or getattr(options, "layout", None) if paths else "submitted"
    submissions = take(plan, paths or collected(course, plan), course, options, layout_name)
    jobs, trusted = options.jobs, options.trust_submissions
    return grade_class(plan, submissions, course, jobs=jobs, trusted=trusted)
