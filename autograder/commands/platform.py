"""``autograder platform``: autograders for Gradescope and PrairieLearn, public tests on GitHub."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.platforms import VISIBILITY
from ringside.command_line import subparser

PLATFORMS = ("gradescope", "prairielearn", "github", "classroom50")


def add_parser(commands: Any) -> None:
    sub = subparser(
        commands,
        "platform",
        "an autograder for Gradescope or PrairieLearn, or public tests on GitHub or Classroom 50",
    )
    sub.add_argument("platform", choices=PLATFORMS, help="docs/platforms.md says what to do there")
    sub.add_argument("assignment", metavar="ASSIGNMENT", help="like a03_allreduce")
    sub.add_argument(
        "--to",
        type=Path,
        metavar="PATH",
        help="a zip for Gradescope, a folder for the others; default: in build/platforms",
    )
    sub.add_argument(
        "--visibility",
        choices=VISIBILITY,
        default="after_published",
        help="when students see Gradescope's tests (%(default)s)",
    )
    sub.add_argument(
        "--image",
        metavar="NAME",
        help="the image in a registry that PrairieLearn runs; containers/ has its recipe",
    )


def run(options: argparse.Namespace) -> int:
    from autograder.platforms import classroom50, contents, github, sizes
    from autograder.platforms.gradescope import autograder_zip
    from autograder.platforms.prairielearn import question

    course = Course.here()
    plan = plans.load(options.assignment, course)
    if options.platform == "prairielearn" and not options.image:
        raise AssignmentError(
            "PrairieLearn runs the grader in an image that it pulls from a registry: name it with "
            "--image, as NAME/ringside:VERSION. docs/platforms.md says how to make it."
        )
    below = course.build / "platforms" / options.platform
    if options.platform in ("github", "classroom50"):
        if options.platform == "github":
            path = github.make(plan, course, options.to or below / plan.name)
            print(f"A template repository, with public tests only: {path}")
        else:
            path = classroom50.make(plan, course, options.to or below / plan.name)
            print(f"For Classroom 50, a template repository and an autograder: {path}")
        if warning := github.release_warning(plan, course):
            print(warning)
        return 0
    settings = contents.settings_of(plan, course, options.visibility)
    if options.platform == "gradescope":
        path = autograder_zip.make(plan, course, options.to or below / f"{plan.name}.zip", settings)
        print(f"For Gradescope's Configure Autograder: {path}")
    else:
        to = options.to or below / plan.name
        path = question.make(plan, course, to, settings, options.image)
        print(f"For questions/{plan.name} of PrairieLearn's course: {path}")
    lacks = settings.points_of_real_ranks(plan)
    why = f": the {lacks:g} of tests on real MPI and gloo, which can't be started there, leave it"
    print(f"The maximum there is {plan.machine_points - lacks:g} points{why if lacks else ''}.")
    print(sizes.advice(plan))
    return 0
