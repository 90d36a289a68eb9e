"""`ringside guesses`: how near your predictions come to the results, through the course."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json

EXAMPLES = """\
examples:
  ringside guesses                     of the course's tree around this folder
  ringside guesses --svg guesses.svg   also as a picture
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "guesses", "list what you predicted beside the results", EXAMPLES)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(), help="in the course's tree (default: here)"
    )
    parser.add_argument("--svg", type=Path, metavar="FILE", help="draw them into this file")


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.course.predictions.progress import files_around, progress
    from ringside.files import write_output

    report = progress(files_around(asked.folder))
    if asked.json:
        print_json(report.as_json())
    else:
        print(report)
    if asked.svg:
        write_output(asked.svg, report.svg().encode())
    return 0
