"""``autograder grade`` and ``autograder report``: submissions in, scores out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autograder import assignment as plans
from autograder import feedback, measured_class, measured_site, pipeline, report
from autograder.assignment import Assignment, AssignmentError
from autograder.course import PUBLIC_SECRET, Course
from autograder.outcome import Outcome
from autograder.sandbox import best_tier
from ringside.sites import Site
from ringside.trace import write_atomically


def grade_paths(
    plan: Assignment, paths: Sequence[Path], options: argparse.Namespace, course: Course
) -> list[Outcome]:
    """Grade all submissions under `paths`, with a progress bar where somebody looks."""
    best_tier(trust_submissions=options.trust_submissions)  # refuse now, not in each module
    submissions = pipeline.find(plan, paths)
    if not submissions:
        raise pipeline.PathError(f"There is no submission under {', '.join(map(str, paths))}.")
    session = pipeline.Session(
        plan,
        course,
        pipeline.suite_grader(course, trusted=options.trust_submissions),
        jobs=options.jobs,
        trusted=options.trust_submissions,
    )
    screen = Console(stderr=True)
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("modules", total=None)
        return session.grade(
            submissions, lambda done, total: bar.update(task, completed=done, total=total)
        )


def as_json(plan: Assignment, outcomes: Sequence[Outcome]) -> dict[str, object]:
    """The report of a grading, as programs read it."""
    tiers = sorted({str(o.result["sandbox"]) for o in outcomes if o.result.get("sandbox")})
    return {
        "assignment": plan.name,
        "kit_version": feedback.kit_version(),
        "sandbox": ", ".join(tiers),
        "submissions": [outcome.as_json(plan) for outcome in outcomes],
    }


def grade(options: argparse.Namespace) -> int:
    """`autograder grade`"""
    asked = [name for name in ("ranks", "gpus", "nodes") if getattr(options, name) is not None]
    if asked and not options.measured:
        raise AssignmentError(f"--{asked[0]} says how to measure: it wants --measured too.")
    course = Course.here()
    plan = plans.load(options.assignment, course)
    if options.executor == "slurm":
        _grade_on_cluster(plan, options, course)
    outcomes = grade_paths(plan, options.paths, options, course)
    if options.measured:
        measure(plan, outcomes, options, course)
    to_stdout = options.json is not None and str(options.json) == "-"
    if options.json is not None:
        text = json.dumps(as_json(plan, outcomes), indent=1, allow_nan=False) + "\n"
        if to_stdout:
            sys.stdout.write(text)
        else:
            write_atomically(options.json, text.encode())
    if options.csv is not None:
        report.write_csv(options.csv, plan, outcomes)
    if options.feedback is not None:
        feedback.write_pages(options.feedback, plan, outcomes)
    if not to_stdout:
        console().print(report.scores_table(plan, outcomes))
        if options.measured:
            console().print(report.measured_table(plan, outcomes))
    if course.secret() == PUBLIC_SECRET and sys.stderr.isatty():
        print(
            "No course secret is set: hidden inputs can be guessed (see README).", file=sys.stderr
        )
    return _status(outcomes)


def measure(
    plan: Assignment, outcomes: Sequence[Outcome], options: argparse.Namespace, course: Course
) -> None:
    """Time what the assignment names, here or on a cluster, and note it in the outcomes."""
    if not plan.measured:
        raise AssignmentError(f"{plan.name} has no [[measured]] entry: nothing is to be timed.")

    def say(line: str) -> None:
        print(report.printable(line), file=sys.stderr)

    site = Site.load(options.site or "local")
    if site.scheduler == "none":
        measured_class.measure_class(
            plan,
            outcomes,
            course,
            say=say,
            trusted=options.trust_submissions,
            ranks=options.ranks,
            gpus=bool(options.gpus),
        )
        return
    array = measured_site.array(
        plan,
        [submission.path for submission in pipeline.find(plan, options.paths)],
        course,
        site,
        site.settings(options.set),
        nodes=options.nodes,
        ranks=options.ranks,
        gpus=bool(options.gpus),
        trusted=options.trust_submissions,
    )
    measured_site.measure_on_site(plan, outcomes, array, options.ranks, say)


def _grade_on_cluster(plan: Assignment, options: argparse.Namespace, course: Course) -> None:
    """Fill the store of results on a cluster; what is missing then is graded here."""
    from autograder.grading_array import GradingArray

    if options.site is None:
        raise pipeline.PathError("--executor slurm needs --site; `ringside site list`.")
    site = Site.load(options.site)
    submissions = [submission.path for submission in pipeline.find(plan, options.paths)]
    array = GradingArray(
        site,
        site.settings(options.set),
        plan.name,
        submissions,
        Path.cwd(),
        course.build / "array" / plan.name,
        options.trust_submissions,
    )
    graded = array.run(lambda line: print(line, file=sys.stderr, flush=True))
    print(f"{graded} of {len(submissions)} were graded there.", file=sys.stderr)


def _status(outcomes: Sequence[Outcome]) -> int:
    bad = [outcome for outcome in outcomes if outcome.status != "graded"]
    for outcome in bad:
        words = outcome.student, outcome.status, " ".join(outcome.message.split())
        print("autograder: " + ": ".join(map(report.printable, words)), file=sys.stderr)
    return 2 if bad else 0


def console() -> Console:
    """Standard output; as wide as the table needs when it is not a terminal."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=140)


def class_report(options: argparse.Namespace) -> int:
    """`autograder report`"""
    course = Course.here()
    plan = plans.load(options.assignment, course)
    outcomes = grade_paths(plan, options.paths or [course.build / "submitted"], options, course)
    report.print_report(console(), plan, outcomes, course)
    if options.csv is not None:
        report.write_csv(options.csv, plan, outcomes)
    return _status(outcomes)
