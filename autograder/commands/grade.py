"""``autograder grade`` and ``autograder report``: submissions in, scores out."""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from autograder.course import assignment as plans
from autograder.course import people
from autograder.course.assignment import Assignment, AssignmentError
from autograder.course.course import CONFIG, Course
from autograder.exports import scores_csv
from autograder.grade import pipeline, progress
from autograder.grade.cache import Result
from autograder.grade.outcome import Outcome
from autograder.grade.pipeline import Submission
from autograder.intake import intake
from autograder.intake.moodle_worksheet import Worksheet
from autograder.measured import for_class as measured_class
from autograder.measured import on_site as measured_site
from autograder.report import feedback, report
from autograder.report import page as report_page
from autograder.sandbox.sandbox import SandboxUnavailable, best_tier
from ringside.files import write_atomically
from ringside.launch.sites import Site

MAX_NOTE = 400  # characters of a note that the terminal shows


def grade_paths(
    plan: Assignment, paths: Sequence[Path], options: argparse.Namespace, course: Course
) -> list[Outcome]:
    """Grade all submissions under `paths`, and show how far it is."""
    return grade_submissions(plan, taken(plan, paths, options, course), options, course)


def taken(
    plan: Assignment, paths: Sequence[Path], options: argparse.Namespace, course: Course
) -> list[Submission]:
    """The submissions under `paths`; `--one-submission` is for tasks of a grading array."""
    if getattr(options, "one_submission", False):
        found = pipeline.find(plan, paths)
    else:
        roster, timezone = (getattr(options, name, None) for name in ("roster", "timezone"))
        found = intake.take(plan, paths, course, roster=roster, timezone=timezone)
    if not found:
        raise pipeline.PathError(f"There is no submission under {', '.join(map(str, paths))}.")
    return found


def grade_submissions(
    plan: Assignment,
    submissions: Sequence[Submission],
    options: argparse.Namespace,
    course: Course,
    lost: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Grade submissions, and show how far it is.

    Args:
        lost: student -> why there is no result; then nothing is graded here, and only what the
            store has counts.
    """
    if lost is None:
        best_tier(trust_submissions=options.trust_submissions)  # refuse now, not in each module
    students = [submission.student for submission in submissions]
    for sentence in (*people.others_read(course), *people.doubts(course, plan.name, students)):
        _say_once(sentence)
    session = pipeline.Session(
        plan,
        course,
        pipeline.suite_grader(course, trusted=options.trust_submissions)
        if lost is None
        else _refuse,
        jobs=options.jobs,
        trusted=options.trust_submissions,
    )
    with progress.shown() as note:
        outcomes = session.grade(submissions, note)
    for path in session.store.damaged:
        print(f"autograder: {path} was damaged; it was graded again.", file=sys.stderr)
    for outcome in outcomes:
        if lost and outcome.student in lost:
            outcome.message = f"The cluster did not grade it: {lost[outcome.student]}"
    return outcomes


def collected(course: Course, plan: Assignment) -> list[Path]:
    """Where nbgrader has put what was handed in.

    Raises:
        PathError: nothing was collected.
    """
    if not course.submissions(plan.name):
        where = course.root if (course.root / CONFIG).is_file() else course.kit
        raise pipeline.PathError(
            f"No submission of {plan.name} is collected in {course.build / 'submitted'}: "
            f"run `nbgrader collect {plan.name}` in {where}, or name a folder of submissions."
        )
    return [course.build / "submitted"]


def _refuse(assignment: str, folder: Path, module: str) -> Result:
    raise RuntimeError("the cluster gave no result, and nothing is graded here.")


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
    if options.executor != "slurm":
        best_tier(trust_submissions=options.trust_submissions)  # refuse now, not in each module
    if options.roster is not None and not Worksheet.is_one(options.roster):
        Worksheet.read(options.roster)  # says what it isn't
    submissions = taken(plan, options.paths, options, course)
    on_cluster = options.executor == "slurm"
    lost = _grade_on_cluster(plan, submissions, options, course) if on_cluster else None
    outcomes = grade_submissions(plan, submissions, options, course, lost)
    if options.measured:
        measure(plan, submissions, outcomes, options, course)
    to_stdout = options.json is not None and str(options.json) == "-"
    if options.json is not None:
        text = json.dumps(as_json(plan, outcomes), indent=1, allow_nan=False) + "\n"
        if to_stdout:
            sys.stdout.write(text)
        else:
            write_atomically(options.json, text.encode())
    if options.csv is not None:
        scores_csv.write(options.csv, plan, outcomes)
    if options.feedback is not None:
        feedback.write_pages(options.feedback, plan, outcomes)
    if not to_stdout:
        console().print(report.scores_table(plan, outcomes))
        if options.measured:
            console().print(report.measured_table(plan, outcomes))
    return _status(outcomes)


def measure(
    plan: Assignment,
    submissions: Sequence[Submission],
    outcomes: Sequence[Outcome],
    options: argparse.Namespace,
    course: Course,
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
        [submission.path for submission in submissions],
        course,
        site,
        site.settings(options.set),
        nodes=options.nodes,
        ranks=options.ranks,
        gpus=bool(options.gpus),
        trusted=options.trust_submissions,
    )
    measured_site.measure_on_site(plan, outcomes, array, options.ranks, say)


def _grade_on_cluster(
    plan: Assignment,
    submissions: Sequence[Submission],
    options: argparse.Namespace,
    course: Course,
) -> dict[str, str] | None:
    """Fill the store of results on a cluster.

    Returns:
        None: what is missing then is graded here. Else student -> why there is no result.
    """
    from autograder.array.for_class import ClusterClass

    if options.site is None:
        raise pipeline.PathError("--executor slurm needs --site; `ringside site list`.")

    def say(line: str) -> None:
        print(report.printable(line), file=sys.stderr, flush=True)

    session = pipeline.Session(plan, course, _refuse, trusted=options.trust_submissions)
    site = Site.load(options.site)
    settings = site.settings(options.set)
    lost = ClusterClass(course, site, settings, session, submissions, say).run()
    say(f"{len(submissions) - len(lost)} of {len(submissions)} have their results.")
    if options.no_fallback:
        return lost
    try:
        best_tier(trust_submissions=options.trust_submissions)
    except SandboxUnavailable as error:
        if lost:
            say(f"The others can't be graded here: {error}")
        return lost
    if lost:
        say(f"{len(lost)} are graded here.")
    return None


def _status(outcomes: Sequence[Outcome]) -> int:
    bad = [outcome for outcome in outcomes if outcome.status != "graded"]
    for each in bad:
        say(each.who, each.status, " ".join(each.message.split()))
    for each in outcomes:
        for note in each.intake:
            say(each.who, note[:MAX_NOTE])
        if each.empty:
            notes = [note[:MAX_NOTE] for note in each.notes[:3]]
            say(each.who, " ".join([each.empty, *notes]))
        for flag in each.flags:
            say(each.who, "flagged", flag)
    return 2 if bad else 0


@functools.cache
def _say_once(sentence: str) -> None:
    """What a process that grades one submission after the other says of the course."""
    say(sentence)


def say(*words: str) -> None:
    print("autograder: " + ": ".join(map(report.printable, words)), file=sys.stderr)


def console() -> Console:
    """Standard output; as wide as the table needs when it is not a terminal."""
    screen = Console()
    return screen if screen.is_terminal else Console(width=140)


def class_report(options: argparse.Namespace) -> int:
    """`autograder report`"""
    course = Course.here()
    plan = plans.load(options.assignment, course)
    outcomes = grade_paths(plan, options.paths or collected(course, plan), options, course)
    if not options.paths:
        from autograder.nbgrader import gradebook  # and nbgrader with it, which takes seconds

        outcomes = gradebook.with_marks_by_hand(course, plan, outcomes)
    summary = report.of_class(plan, outcomes, course)
    report.print_report(console(), summary)
    if options.html is not None:
        report_page.write(options.html, summary)
        print(f"The report as a page: {options.html}")
    if options.csv is not None:
        scores_csv.write(options.csv, plan, outcomes)
    return _status(outcomes)
