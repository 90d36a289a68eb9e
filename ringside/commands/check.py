"""`ringside check`: the public tests of the modules here."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from ringside.commands.command import add, add_sync, print_json, sync
from ringside.errors import Interrupted, TargetError

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # the screen, and what was scrolled out of it

EXAMPLES = """\
examples:
  ringside check                 all modules of the assignment's folder
  ringside check ring star       these two
  ringside check ring --test bytes_per_rank      one test
  ringside check ring --case "p=5 n=11"          the tests that take it, with this case
  ringside check --timeout 60    each call on ranks has a minute: a slow machine
  ringside check --watch         again whenever a module is saved, until Ctrl-C
  ringside check --json
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "check", "run the public tests of the modules here", EXAMPLES)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as ring; none: all")
    parser.add_argument(
        "--test",
        default="",
        metavar="NAME",
        help="only the test of this name, such as bytes_per_rank",
    )
    parser.add_argument(
        "--case", default="", metavar="CASE", help='only this case, such as "p=5 n=11"'
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="S",
        help="real seconds of one call on ranks (default: as many as the grader gives)",
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="the assignment's folder (default: here)"
    )
    parser.add_argument(
        "--watch", action="store_true", help="check a module again whenever it is saved"
    )
    add_sync(parser)


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking import public_tests

    public_tests.find(asked.folder)  # before anything is said about notebooks
    modules = [name.removesuffix(".py") for name in asked.modules]
    timeout_s = public_tests.CALL_TIMEOUT_S if asked.timeout is None else asked.timeout
    if not timeout_s > 0:
        raise TargetError(f"--timeout ({timeout_s:g}) must be more than 0 seconds.")
    if asked.watch:
        return _watch(asked, modules, timeout_s)
    if not sync(asked, modules):
        return 2
    report = public_tests.run(
        asked.folder, modules, asked.test, case=asked.case, timeout_s=timeout_s
    )
    if asked.json:
        print_json(report.as_json())
    else:
        print(public_tests.text(report))
    return 0 if report.passed and report.modules else 1


def _watch(asked: argparse.Namespace, modules: list[str], timeout_s: float) -> int:
    """Check again after each change, until Ctrl-C."""
    from ringside.checking import watching

    if asked.case:
        raise TargetError("--watch checks all cases: omit --case.")
    if asked.json:
        raise TargetError("--watch shows results to a person: omit --json.")
    if asked.from_files:
        raise TargetError(
            "--watch doesn't write into a notebook that may be open: `ringside handin "
            "--from-files` does so once, at the end."
        )
    results = watching.watch(
        asked.folder,
        modules,
        asked.test,
        timeout_s=timeout_s,
        from_notebook=asked.from_notebook,
    )
    live = sys.stdout.isatty()
    what = ", ".join(modules) or "all modules"
    try:
        for result in results:
            at = time.strftime("%H:%M:%S")
            print(_CLEAR if live else f"-- {at} {' '.join(result.checked)}\n", end="")
            print(result.text())
            print(f"{at}: watching {what}; Ctrl-C ends.", flush=True)
    except KeyboardInterrupt as stop:
        if isinstance(stop, Interrupted):  # ranks were at work: where, is worth telling
            raise
        print()
    return 0
