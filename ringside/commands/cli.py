"""The student's command line; each command has a file of its own beside this one.

Exit status 0: done; 1: the student's code failed; 2: asked wrongly, or this kit failed.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

from ringside.commands import (
    check,
    completion,
    doctor,
    fit,
    guesses,
    handin,
    launch,
    predict,
    progress,
    run,
    site,
    start,
    update,
)
from ringside.errors import Interrupted, RingsideError, RunError

_COMMANDS: dict[str, Any] = {
    "check": check,
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
    argv = list(sys.argv[1:] if words is None else words)
    cut = argv.index("--") if "--" in argv else len(argv)
    parser = build_parser()
    args, unknown = parser.parse_known_args(argv[:cut])
    args.parser = parser
    args.given, args.words = argv[:cut], argv[cut + 1 :]
    if unknown:
        print(f"ringside {args.command}: {_unknown(args, unknown)}", file=sys.stderr)
        return 2
    try:
        status: int = _COMMANDS[args.command].run(args)
        return status
    except RunError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as `head`, had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # nothing more can be said
        return 0
    except RingsideError as error:
        print(f"ringside: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"ringside: {_of_the_system(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        start = "\n" if sys.stderr.isatty() else ""  # the terminal's own ^C stands there
        message = stop if isinstance(stop, Interrupted) else "stopped."
        print(f"{start}ringside: {message}", file=sys.stderr)
        return 130


def _of_the_system(error: OSError) -> str:
    """What this machine refused, and the way round where a folder can't be written."""
    if error.filename is None or error.strerror is None:
        return str(error)
    message = f"{os.fspath(error.filename)}: {error.strerror}."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        message += " Is the folder not yours? Work in a copy of it (`cp -r`)."
    return message


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
