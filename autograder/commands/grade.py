"""``autograder grade``: submissions in, scores out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder import terminal
from autograder.collect.submissions import PathError, Submission
from autograder.commands import options as shared
from autograder.course import assignment as plans
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import Course
from autograder.storage import file_to_write, folder_to_write
from ringside.command_line import subparser

if TYPE_CHECKING:
    from autograder.grade.outcome import Outcome


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "grade", "grade notebooks, folders of modules, or a submitted tree")
    sub.add_argument("assignment", metavar="ASSIGNMENT", help="like a03_allreduce")
    sub.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a notebook, a zip, a folder of modules; a folder of these, named after students; or "
        "the download of Canvas, Moodle or Gradescope as it comes, a folder or a zip",
    )
    shared.add_layout(sub)
    shared.add_worksheet(sub)
    sub.add_argument(
        "--json", type=file_to_write, metavar="FILE", help="write the results; - is stdout"
    )
    sub.add_argument(
        "--feedback", type=folder_to_write, metavar="FOLDER", help="write a page per submission"
    )
    sub.add_argument("--csv", type=file_to_write, metavar="FILE", help="write the scores")
    sub.add_argument(
        "--executor",
        choices=["local", "slurm"],
        default="local",
        help="where to grade: here, or first as a job array (on --site)",
    )
    sub.add_argument(
        "--no-fallback",
        action="store_true",
        help="what --executor slurm could not grade is reported, not graded here",
    )
    sub.add_argument("--site", help="where --executor slurm grades, or --measured measures")
    sub.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the site"
    )
    shared.add_grading(sub)
    shared.add_measuring(sub)


def run(options: argparse.Namespace) -> int:
    from autograder.grade.class_grading import check_sandbox, grade_class, say_what_to_look_at
    from autograder.platforms.moodle.worksheet import Worksheet

    flags = [name for name in ("ranks", "gpus", "nodes") if getattr(options, name) is not None]
    if flags and not options.measured:
        raise AssignmentError(f"--{flags[0]} says how to measure: it wants --measured too.")
    course = Course.here()
    plan = plans.load(options.assignment, course)
    on_cluster, trusted = options.executor == "slurm", options.trust_submissions
    if not on_cluster:
        check_sandbox(trusted=trusted)
    if options.roster is not None and not Worksheet.is_one(options.roster):
        Worksheet.read(options.roster)  # says what it isn't
    submissions = shared.take(plan, options.paths, course, options, options.layout)
    lost = _on_cluster(plan, submissions, course, options) if on_cluster else None
    outcomes = grade_class(plan, submissions, course, jobs=options.jobs, trusted=trusted, lost=lost)
    if options.measured:
        works: dict[tuple[str, str], tuple[Outcome, Submission]] = {}
        for outcome, submission in zip(outcomes, submissions, strict=True):
            works.setdefault(outcome.author, (outcome, submission))  # a team's work once
        once, paths = map(list, zip(*works.values(), strict=True))
        _measure(plan, paths, once, course, options)
        for outcome in outcomes:
            outcome.measured = works[outcome.author][0].measured
    _write(plan, outcomes, options)
    return 0 if say_what_to_look_at(outcomes) else 2


def _on_cluster(
    plan: Assignment,
    submissions: Sequence[Submission],
    course: Course,
    options: argparse.Namespace,
) -> dict[str, str] | None:
    from autograder.grade.cluster.cluster_class import grade_on_cluster
    from ringside.jobs.launch.sites import Site

    if options.site is None:
        raise PathError("--executor slurm needs --site; `ringside site list`.")
    site = Site.load(options.site)
    return grade_on_cluster(
        plan,
        submissions,
        course,
        site,
        site.settings(options.set),
        terminal.follow,
        trusted=options.trust_submissions,
        fallback=not options.no_fallback,
    )


def _measure(
    plan: Assignment,
    submissions: Sequence[Submission],
    outcomes: Sequence[Outcome],
    course: Course,
    options: argparse.Namespace,
) -> None:
    """Time what the assignment names, here or on a cluster, and note it in the outcomes."""
    from autograder.grade.cluster import measured_array
    from autograder.grade.measured import local_class
    from ringside.jobs.launch.sites import Site

    if not plan.measured:
        raise AssignmentError(f"{plan.name} has no [[measured]] entry: nothing is to be timed.")
    site, say = Site.load(options.site or "local"), terminal.follow
    ranks, gpus, trusted = options.ranks, bool(options.gpus), options.trust_submissions
    if site.scheduler == "none":
        local_class.measure_class(
            plan, outcomes, course, say=say, trusted=trusted, ranks=ranks, gpus=gpus
        )
        return
    array = measured_array.array(
        plan,
        [submission.path for submission in submissions],
        course,
        site,
        site.settings(options.set),
        nodes=options.nodes,
        ranks=ranks,
        gpus=gpus,
        trusted=trusted,
    )
    measured_array.measure_on_site(plan, outcomes, array, ranks, say)


def _write(plan: Assignment, outcomes: list[Outcome], options: argparse.Namespace) -> None:
    from autograder.grade import scores_csv, scores_json
    from autograder.gradebook.report import rendering, report
    from ringside.files import write_atomically

    to_stdout = options.json is not None and str(options.json) == "-"
    if to_stdout:
        sys.stdout.write(scores_json.text(plan, outcomes))
    elif options.json is not None:
        write_atomically(options.json, scores_json.text(plan, outcomes).encode())
    if options.csv is not None:
        scores_csv.write(options.csv, plan, outcomes)
    if options.feedback is not None:
        rendering.write_pages(options.feedback, plan, outcomes)
    if not to_stdout:
        screen = terminal.console()
        screen.print(report.scores_table(plan, outcomes))
        if options.measured:
            screen.print(report.measured_table(plan, outcomes))
