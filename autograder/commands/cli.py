"""``autograder``: what an instructor does, from the release to the class report.

A command imports its module when it runs: nbgrader and nbformat alone take three seconds, which
``--help``, `verify` and the grading of a folder of modules needn't.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from autograder import exports
from autograder.course import assignment as plans
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.course.limits import LimitsError
from autograder.grade import pipeline
from autograder.sandbox.sandbox import SandboxUnavailable
from autograder.storage import file_to_write, folder_to_write
from autograder.submission import finding
from ringside.errors import RingsideError

EXAMPLES = """examples:
  autograder new-course ~/pdl-2026                      a course's own folder: dates, secret, grades
  autograder build                                      solutions/ -> assignments/
  autograder grade a03_allreduce FOLDER --json out.json a folder of modules, or of notebooks
  autograder grade a03_allreduce build/submitted --jobs 8
  autograder grade a03_allreduce FOLDER --measured      also times it, on real ranks here
  autograder grade a03_allreduce build/submitted --executor slurm --site zaratan
  autograder collect a03_allreduce submissions.zip      a download of Canvas, for nbgrader
  autograder report a03_allreduce --html report.html    the class that nbgrader collected
  autograder export a03_allreduce --to canvas --roster canvas.csv --out grades.csv
  autograder regrade a03_allreduce --dry-run            whose points a mended suite changes
  autograder verify a03_allreduce                       the suite against what it must catch

exit status: 0 done, whatever the scores; 1 what was asked about is not so (build --check,
verify), or nobody said yes (regrade); 2 something could not be graded, or the command was wrong,
and the message says what.
"""


FAULTS = (
    AssignmentError,
    LimitsError,
    RingsideError,
    SandboxUnavailable,
    finding.PathError,
    OSError,
)
OWN_LINES = (["verify"], ["lectures"])  # commands that read their own options
KEEPS = ("grade", "report", "regrade", "export")  # commands whose results are in the store


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _command_of_its_own(arguments) if arguments[:1] in OWN_LINES else _run(arguments)
    except FAULTS as error:
        print(f"autograder: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = "; what was graded is kept" if arguments[0] in KEEPS else ""
        start = "\n" if sys.stderr.isatty() else ""  # after ^C and what shows the progress
        print(f"{start}autograder: stopped{kept}.", file=sys.stderr)
        return 130


def _run(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    action: Callable[[argparse.Namespace], int] = options.action
    if arguments[0] not in KEEPS:
        return action(options)
    before = os.umask(0o077)  # what is written of a class is nobody else's to read
    try:
        return action(options)
    finally:
        os.umask(before)


def _command_of_its_own(arguments: list[str]) -> int:
    if arguments[0] == "verify":
        from autograder.verify import verify

        return int(verify.main(arguments[1:]))
    from ringside.lectures.__main__ import main as lectures

    return lectures(arguments[1:] or ["build"])


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
    sub.add_argument("assignment", metavar="ASSIGNMENT", help="like a03_allreduce")
    sub.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a notebook, a zip, a folder of modules; a folder of these, named after students; or "
        "the download of Canvas, Moodle or Gradescope as it comes, a folder or a zip",
    )
    sub.add_argument("--one-submission", action="store_true", help=argparse.SUPPRESS)
    _add_worksheet(sub)
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
    _add_grading_options(sub)
    _add_measuring_options(sub)

    sub = command("collect", collect, "put a platform's download where nbgrader looks")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="the download as it comes, or anything that `grade` takes",
    )
    _add_worksheet(sub)

    sub = command("report", report, "scores, failed tests, similar submissions of a class")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: build/submitted")
    _add_worksheet(sub)
    sub.add_argument(
        "--html", type=file_to_write, metavar="FILE", help="write one page with everything"
    )
    sub.add_argument("--csv", type=file_to_write, metavar="FILE", help="write the scores")
    _add_grading_options(sub)

    sub = command("regrade", regrade, "show whose points a mended suite changes, and write them")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("students", nargs="*", metavar="STUDENT", help="default: the whole class")
    group = sub.add_mutually_exclusive_group()
    group.add_argument("--yes", action="store_true", help="write without asking")
    group.add_argument("--dry-run", action="store_true", help="show only, never write")
    _add_grading_options(sub)

    sub = command("export", export, "marks for Canvas, Moodle or Gradescope, or a CSV")
    sub.add_argument("assignment", metavar="ASSIGNMENT")
    sub.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: build/submitted")
    sub.add_argument("--to", choices=exports.KINDS, required=True, help="for which platform")
    sub.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="a folder, for Gradescope"
    )
    sub.add_argument(
        "--roster", type=Path, metavar="FILE", help="Canvas' export, or Moodle's grading worksheet"
    )
    _add_timezone(sub)
    sub.add_argument("--column", metavar="NAME", help="the assignment's column; default: its title")
    sub.add_argument(
        "--new-column",
        action="store_true",
        help="Canvas may make a new assignment: its column is not in the roster",
    )
    sub.add_argument(
        "--partial",
        action="store_true",
        help="export although grades are unfinished; those stay without a score, and are named",
    )
    sub.add_argument("--raw", action="store_true", help="scores before lateness is taken off")
    sub.add_argument(
        "--leave-out-unmatched", action="store_true", help="students who are not in the roster"
    )
    sub.add_argument(
        "--visibility",
        choices=exports.VISIBILITY,
        default="after_published",
        help="when students see Gradescope's tests (%(default)s)",
    )
    _add_grading_options(sub)

    sub = command(
        "new-assignment",
        new_assignment,
        "make an assignment that builds, verifies and grades, to be changed",
    )
    sub.add_argument("name", metavar="NAME", help="like a14_prefix")
    sub.add_argument("--torch", action="store_true", help="its module is of torch.distributed")

    sub = command("new-course", new_course, "make a course's folder outside the kit")
    sub.add_argument("folder", type=Path, metavar="FOLDER", help="new, or empty")

    sub = command("bundle", bundle, "make the students' tree, without solutions and autograder")
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/ringside-students")
    sub.add_argument("--zip", action="store_true", help="pack it too")

    sub = command("demo", demo, "grade a whole class through nbgrader: table, feedback, CSV")
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/demo")
    sub.add_argument("--jobs", type=int, default=pipeline.cores(), metavar="N")

    commands.add_parser("verify", help="the suites against what they must catch (verify --help)")
    commands.add_parser("lectures", help="execute the lectures whose source changed")
    return top


def _add_worksheet(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="Moodle's grading worksheet: who the participants are, and when they handed in",
    )
    _add_timezone(sub)


def _add_timezone(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--timezone",
        type=_zone,
        metavar="ZONE",
        help="of the times in that worksheet, like Europe/Berlin; default: this machine's",
    )


def _zone(text: str) -> ZoneInfo:
    """A time zone of the command line, like Europe/Berlin."""
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"{text!r} is no time zone like Europe/Berlin"
        raise argparse.ArgumentTypeError(message) from error


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


def _add_measuring_options(sub: argparse.ArgumentParser) -> None:
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


def build(options: argparse.Namespace) -> int:
    """`autograder build`"""
    from autograder.authoring.build import build_all
    from autograder.gradebook import database
    from autograder.submission import late

    course = Course.here()
    names = options.assignments or plans.known(course)
    if not names:
        raise AssignmentError(f"There are no assignments under {course.kit / 'solutions'}.")
    found = build_all(course, names, check=options.check, say=_say_aside)
    if not options.check:
        late.tell(course)
    inside = course.releases.is_relative_to(course.kit)
    place = course.releases.relative_to(course.kit) if inside else course.releases
    for name, files in found.items():
        if files:
            print(f"{place}/{name} is stale ({', '.join(files)}): run `autograder build`.")
        else:
            print(f"{place}/{name}: {'up to date' if options.check else 'built'}")
        if not options.check and (other := database.other_due(course, plans.load(name, course))):
            print(f"autograder: {other}", file=sys.stderr)
    return 1 if any(found.values()) else 0


def _say_aside(text: str) -> None:
    print(f"autograder: {text}", file=sys.stderr)


def grade(options: argparse.Namespace) -> int:
    """`autograder grade`"""
    from autograder.commands import grade as cli_grade

    return cli_grade.grade(options)


def collect(options: argparse.Namespace) -> int:
    """`autograder collect`"""
    from autograder.intake import collecting

    return collecting.collect(options)


def report(options: argparse.Namespace) -> int:
    """`autograder report`"""
    from autograder.commands import grade as cli_grade

    return cli_grade.class_report(options)


def regrade(options: argparse.Namespace) -> int:
    """`autograder regrade`"""
    from autograder.regrade import regrade as regrading

    return regrading.regrade(options)


def export(options: argparse.Namespace) -> int:
    """`autograder export`"""
    from autograder.commands import export as cli_export

    return cli_export.export(options)


def new_assignment(options: argparse.Namespace) -> int:
    """`autograder new-assignment`"""
    from autograder.authoring import new_assignment as making

    return making.new_assignment(options)


def new_course(options: argparse.Namespace) -> int:
    """`autograder new-course`"""
    from autograder.authoring import new_course as making

    return making.new_course(options)


def bundle(options: argparse.Namespace) -> int:
    """`autograder bundle`"""
    from autograder.authoring import bundle as bundling

    course = Course.here()
    folder = options.to or course.build / "ringside-students"
    if options.zip:
        bundling.zip_beside(folder)  # refused before the work
    print(f"The students' tree: {bundling.make(course, folder)}")
    if options.zip:
        print(f"Packed: {bundling.pack(folder)}")
    return 0


def demo(options: argparse.Namespace) -> int:
    """`autograder demo`"""
    from autograder.commands import grade as cli_grade
    from autograder.demo import show

    return show.run(options.to, jobs=options.jobs, console=cli_grade.console())
