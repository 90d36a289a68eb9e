"""``autograder``: what an instructor does, from the release to the class report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autograder import assignment as plans
from autograder import feedback, pipeline, report
from autograder.assignment import Assignment, AssignmentError
from autograder.course import PUBLIC_SECRET, Course
from autograder.outcome import Outcome
from autograder.sandbox import SandboxUnavailable, best_tier
from ringside.errors import RingsideError
from ringside.trace import write_atomically

EXAMPLES = """examples:
  autograder build                                      solutions/ -> assignments/
  autograder grade a03_allreduce FOLDER --json out.json a folder of modules, or of notebooks
  autograder grade a03_allreduce build/submitted --jobs 8
  autograder grade a03_allreduce build/submitted --executor slurm --site zaratan
  autograder report a03_allreduce --csv grades.csv      the class that nbgrader collected
  autograder verify a03_allreduce                       the suite against what it must catch

exit status: 0 done, whatever the scores; 1 what was asked about is not so (build --check,
verify); 2 something could not be graded, or the command was wrong, and the message says what.
"""


FAULTS = (AssignmentError, RingsideError, SandboxUnavailable, pipeline.PathError, OSError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # These two have command lines of their own.
    if arguments[:1] == ["verify"]:
        from autograder import verify

        return int(verify.main(arguments[1:]))
    if arguments[:1] == ["lectures"]:
        from ringside.lectures.__main__ import main as lectures

        return lectures(arguments[1:] or ["build"])
    options = parser().parse_args(arguments)
    action: Callable[[argparse.Namespace], int] = options.action
    try:
        return action(options)
    except FAULTS as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("autograder: stopped; what was graded is kept.", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="autograder",
        description="Build assignments, grade submissions, report on a class.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, action: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(action=action)
        return sub

    sub = command("build", build, "make assignments/ from solutions/")
    sub.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="all, if none is named")
    sub.add_argument("--check", action="store_true", help="change nothing; status 1 if stale")

    sub = command("grade", grade, "grade notebooks, folders of modules, or a submitted tree")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    sub.add_argument("--json", type=Path, metavar="FILE", help="write the results; - is stdout")
    sub.add_argument("--feedback", type=Path, metavar="FOLDER", help="write a page per submission")
    sub.add_argument("--csv", type=Path, metavar="FILE", help="write the scores")
    sub.add_argument(
        "--executor",
        choices=["local", "slurm"],
        default="local",
        help="where to grade: here, or first as a job array (on --site)",
    )
    sub.add_argument("--site", help="the cluster of --executor slurm; `ringside site list`")
    sub.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a variable of the site"
    )
    _add_grading_options(sub)

    sub = command("report", class_report, "scores, failed tests, similar submissions of a class")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: build/submitted")
    sub.add_argument("--csv", type=Path, metavar="FILE", help="write the scores")
    _add_grading_options(sub)

    sub = command("bundle", bundle, "make the students' tree, without solutions and autograder")
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/ringside-students")
    sub.add_argument("--zip", action="store_true", help="pack it too")

    sub = command("demo", demo, "grade a whole class through nbgrader: table, feedback, CSV")
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/demo")
    sub.add_argument("--jobs", type=int, default=pipeline.cores(), metavar="N")

    commands.add_parser("verify", help="the suites against what they must catch (verify --help)")
    commands.add_parser("lectures", help="execute the lectures whose source changed")
    return top


def _add_grading_options(sub: argparse.ArgumentParser) -> None:
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


def build(options: argparse.Namespace) -> int:
    """`autograder build`"""
    from autograder.build import build_all

    course = Course.here()
    names = options.assignments or plans.known(course)
    if not names:
        raise AssignmentError(f"There are no assignments under {course.kit / 'solutions'}.")
    found = build_all(course, names, check=options.check)
    for name, files in found.items():
        if files:
            print(f"assignments/{name} is stale ({', '.join(files)}): run `autograder build`.")
        else:
            print(f"assignments/{name}: {'up to date' if options.check else 'built'}")
    return 1 if any(found.values()) else 0


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
    console = Console(stderr=True)
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
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
    course = Course.here()
    plan = plans.load(options.assignment, course)
    if options.executor == "slurm":
        _grade_on_cluster(plan, options, course)
    outcomes = grade_paths(plan, options.paths, options, course)
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
        _console().print(report.scores_table(plan, outcomes))
    if course.secret() == PUBLIC_SECRET and sys.stderr.isatty():
        print(
            "No course secret is set: hidden inputs can be guessed (see README).", file=sys.stderr
        )
    return _status(outcomes)


def _grade_on_cluster(plan: Assignment, options: argparse.Namespace, course: Course) -> None:
    """Fill the store of results on a cluster; what is missing then is graded here."""
    from autograder.grading_array import GradingArray
    from ringside.sites import Site

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
        print(
            f"autograder: {report.printable(outcome.student)}: {outcome.status}: {outcome.message}",
            file=sys.stderr,
        )
    return 2 if bad else 0


def _console() -> Console:
    """Standard output; as wide as the table needs when it is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=140)


def class_report(options: argparse.Namespace) -> int:
    """`autograder report`"""
    course = Course.here()
    plan = plans.load(options.assignment, course)
    outcomes = grade_paths(plan, options.paths or [course.build / "submitted"], options, course)
    report.print_report(_console(), plan, outcomes, course)
    if options.csv is not None:
        report.write_csv(options.csv, plan, outcomes)
    return _status(outcomes)


def bundle(options: argparse.Namespace) -> int:
    """`autograder bundle`"""
    from autograder import bundle as bundling

    course = Course.here()
    folder = bundling.make(course, options.to or course.build / "ringside-students")
    print(f"The students' tree: {folder}")
    if options.zip:
        print(f"Packed: {bundling.pack(folder)}")
    return 0


def demo(options: argparse.Namespace) -> int:
    """`autograder demo`"""
    from autograder.demo import show

    return show.run(options.to, jobs=options.jobs, console=_console())
