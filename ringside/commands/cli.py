"""The student's command line; each command has a file of its own beside this one.

Exit status 0: done; 1: the student's code failed; 2: asked wrongly, or this kit failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from ringside import command_line
from ringside.commands import (
    check,
    completion,
    doctor,
    fit,
    guesses,
    handin,
    hint,
    launch,
    predict,
    progress,
    run,
    site,
    start,
    update,
)
from ringside.errors import RunError

_COMMANDS: dict[str, Any] = {
    "check": check,
    "hint": hint,
    "run": run,
    "launch": launch,
    "site": site,
    "handin": handin,
    "progress": progress,
    "guesses": guesses,
    "fit": fit,
    "predict": predict,
    "doctor": doctor,
    "start": start,
    "update": update,
    "completion": completion,
}


def build_parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    parser = argparse.ArgumentParser(
        prog="ringside",
        description="Write a parallel scheme, run it on simulated or real ranks, hand it in.",
        epilog="`ringside COMMAND --help` has examples. Exit status 0: done; 1: your code failed; "
        "2: the command was wrong, or something on this machine is.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in _COMMANDS.values():
        command.add_parser(commands)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    return command_line.ended("ringside", lambda: _run(*command_line.split(words)))


def _run(own: list[str], words: list[str]) -> int:
    parser = build_parser()
    args, unknown = parser.parse_known_args(own)
    args.parser = parser
    args.given, args.words = own, words
    if unknown:
        print(f"ringside {args.command}: {_unknown(args, unknown)}", file=sys.stderr)
        return 2
    try:
        status: int = _COMMANDS[args.command].run(args)
    except RunError as error:
        command_line.complain("", error)
        return 1
    return status


def _unknown(asked: argparse.Namespace, unknown: Sequence[str]) -> str:
    """What to do about options that the command doesn't have."""
    text = " ".join(unknown)
    if getattr(asked, "sweep", False) and text[:1].isdigit():
        return (
            f"--sweep takes no numbers ({text}): it runs on 1, 2, 4, ... ranks, up to --nodes "
            "times ranks_per_node (`--set ranks_per_node=8`)."
        )
    if asked.command in ("run", "launch") and asked.target:
        return (
            f"it has no {text}. What the function or script is given stands after ` -- `: "
            f"`ringside {asked.command} {asked.target} -- {text}`."
        )
    return f"it has no {text}; `ringside {asked.command} --help` lists what it has."
