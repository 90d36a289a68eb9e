"""``autograder``: what an instructor does, from the release to the class report.

A command's file holds its options, and imports what it needs when it runs: nbgrader and nbformat
alone take three seconds, which ``--help``, `verify` and the grading of a folder of modules needn't.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from autograder.commands import (
    build,
    bundle,
    collect,
    completion,
    decide,
    demo,
    export,
    grade,
    new_assignment,
    new_course,
    platform,
    regrade,
    remove,
    report,
    total,
    verify,
)
from autograder.course.assignment import AssignmentError
from autograder.course.course import Course
from autograder.grade.command_errors import FAULTS
from ringside import command_line

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
  autograder total --csv total.csv                      the whole course, weighted by course.toml
  autograder platform gradescope a03_allreduce          the zip of an autograder for Gradescope
  autograder regrade a03_allreduce --dry-run            whose points a mended suite changes
  autograder decide a03_allreduce ada ring --points 30 --why "the bound allows it"
  autograder remove a03_allreduce tree --dry-run        a module out of an assignment
  autograder verify a03_allreduce                       the suite against what it must catch

exit status: 0 done, whatever the scores; 1 what was asked about is not so (build --check,
verify), or nobody said yes (regrade); 2 something could not be graded, or the command was wrong,
and the message says what.
"""


_COMMANDS: dict[str, Any] = {
    "build": build,
    "grade": grade,
    "collect": collect,
    "report": report,
    "regrade": regrade,
    "decide": decide,
    "export": export,
    "total": total,
    "platform": platform,
    "new-assignment": new_assignment,
    "remove": remove,
    "new-course": new_course,
    "bundle": bundle,
    "verify": verify,
    "demo": demo,
    "completion": completion,
}  # in the order of --help
# Commands whose results are in the store.
KEEPS = {"grade", "report", "regrade", "decide", "export", "total"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    stopped = "stopped; what was graded is kept." if set(arguments[:1]) & KEEPS else "stopped."
    return command_line.ended("autograder", lambda: _run(arguments), faults=FAULTS, stopped=stopped)


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["lectures"]:  # they read their own options
        from ringside.course.lectures.__main__ import main as lectures

        return lectures(arguments[1:] or ["build"])
    top = parser()
    options = top.parse_args(arguments)
    options.parser = top
    action: Callable[[argparse.Namespace], int] = _COMMANDS[options.command].run
    _need_solutions(options.command)
    if options.command not in KEEPS:
        return action(options)
    before = os.umask(0o077)  # what is written of a class is nobody else's to read
    try:
        return action(options)
    finally:
        os.umask(before)


def _need_solutions(command: str) -> None:
    """Say where the suites are: an installed package holds none of them.

    Raises:
        AssignmentError: the kit has no ``solutions/``.
    """
    kit = Course.here().kit
    if command != "completion" and not (kit / "solutions").is_dir():
        raise AssignmentError(
            f"{kit} has no solutions/, where references and hidden suites are. An installed "
            "package holds none: type `make install` in the course's repository, and use the "
            "`autograder` of its environment."
        )


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="autograder",
        description="Build assignments, grade submissions, report on a class.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS.values():
        command.add_parser(commands)
    commands.add_parser("lectures", help="execute the lectures whose source changed")
    return top
