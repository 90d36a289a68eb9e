"""What the students' commands have in common: JSON, notebook and files."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from ringside import command_line


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
