"""What the students' commands have in common: JSON, notebook and files."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from ringside import command_line
from ringside.failures import Failures


def add(
    commands: Any, name: str, summary: str, examples: str, *, words: bool = False
) -> argparse.ArgumentParser:
    """Add a command's parser."""
    parser = command_line.subparser(commands, name, summary, examples)
    if words:
        parser.usage = f"ringside {name} [OPTIONS] FILE[:FUNCTION] [-- ARGUMENTS]"
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    return parser


def add_sync(parser: argparse.ArgumentParser) -> None:
    """The options that ``sync`` reads."""
    sync = parser.add_mutually_exclusive_group()
    sync.add_argument(
        "--from-notebook",
        action="store_true",
        help="first write the files from the notebook's cells",
    )
    sync.add_argument(
        "--from-files", action="store_true", help="first write the notebook's cells from the files"
    )


def add_failures(parser: argparse.ArgumentParser) -> None:
    """The options that ``failures`` reads."""
    parser.add_argument(
        "--kill", action="append", metavar="WHO@WHEN",
        help="let a rank die: 2@1.2ms, 2@op17 (in its 17th operation), node1@2ms; may come again, "
        "in the order of the deaths",
    )  # fmt: skip
    parser.add_argument(
        "--lost", action="store_true", help="what a killed rank has on its way never arrives"
    )
    parser.add_argument(
        "--hang", action="append", metavar="WHO@WHEN",
        help="let a rank stop for ever, alive: 2@op9 (before its 9th operation)",
    )  # fmt: skip
    parser.add_argument(
        "--slow", action="append", metavar="RANKxFACTOR",
        help="let a rank compute longer: 1x1.34 is rank 1, 1.34 times as long; may come again",
    )  # fmt: skip
    parser.add_argument(
        "--flip", action="append", metavar="RANK#MESSAGE:BIT",
        help="let a bit arrive wrong: 2#5:bit62 is bit 62 of the 5th message that rank 2 sends",
    )  # fmt: skip


def failures(asked: argparse.Namespace) -> Failures | None:
    """What is to go wrong in a run; None: nothing.

    Raises:
        TargetError: an option can't be read.
    """
    return Failures.asked(asked.kill, asked.lost, asked.hang, asked.slow, asked.flip)


def sync(asked: argparse.Namespace, modules: Sequence[str]) -> bool:
    """Make notebook and files agree as asked; False: they differ and nothing was asked.

    A cell that is still as released gives way to its file: that is no difference.
    """
    from ringside.checking import notebook

    diffs = notebook.differences(asked.folder, modules)
    if asked.from_files:
        diffs += notebook.giving_way(asked.folder, modules)
    for cell in notebook.split(asked.folder, modules) if diffs else ():
        say_to_stderr(f"notice: {notebook.split_sentence(cell)}")
    if not diffs:
        return True
    if not (asked.from_notebook or asked.from_files):
        command = shlex.join(["ringside", *asked.given])
        say_to_stderr(notebook.refusal(diffs, command))
        return False
    done = notebook.write_files(diffs) if asked.from_notebook else notebook.write_cells(diffs)
    for line in done:
        say_to_stderr(line)
    return True


def print_json(value: Any) -> None:
    """For programs."""
    print(json.dumps(value, indent=1, ensure_ascii=False), flush=True)


def say_to_stderr(line: str) -> None:
    """For people, beside an answer on standard output."""
    print(line, file=sys.stderr, flush=True)
