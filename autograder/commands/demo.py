"""``autograder demo``: a whole class graded through nbgrader: table, feedback, CSV."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder import terminal
from autograder.grade import pipeline
from ringside.command_line import subparser


def add_parser(commands: Any) -> None:
    sub = subparser(commands, "demo", "grade a whole class through nbgrader: table, feedback, CSV")
    sub.add_argument("--to", type=Path, metavar="FOLDER", help="default: build/demo")
    sub.add_argument("--jobs", type=int, default=pipeline.cores(), metavar="N")


def run(options: argparse.Namespace) -> int:
    from autograder.author.demo import show

    return show.run(options.to, jobs=options.jobs, console=terminal.console())
