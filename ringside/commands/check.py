"""`ringside check`: the public tests of the modules here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ringside.commands.command import add, add_sync, print_json, sync
from ringside.errors import TargetError

EXAMPLES = """\
examples:
  ringside check                 all modules of the assignment's folder
  ringside check ring star       these two
  ringside check ring --test ring_bytes      one test
  ringside check --timeout 60    each call on ranks has a minute: a slow machine
  ringside check --json
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "check", "run the public tests of the modules here", EXAMPLES)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as ring; none: all")
    parser.add_argument(
        "--test", default="", metavar="NAME", help="only the test of this name, such as ring_bytes"
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
    add_sync(parser)


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking import public_tests

    public_tests.find(asked.folder)  # before anything is said about notebooks
    modules = [name.removesuffix(".py") for name in asked.modules]
    if not sync(asked, modules):
        return 2
    timeout_s = public_tests.CALL_TIMEOUT_S if asked.timeout is None else asked.timeout
    if not timeout_s > 0:
        raise TargetError(f"--timeout ({timeout_s:g}) must be more than 0 seconds.")
    report = public_tests.run(asked.folder, modules, asked.test, timeout_s=timeout_s)
    if asked.json:
        print_json(report.as_json())
    else:
        print(public_tests.text(report))
    return 0 if report.passed and report.modules else 1
