"""How every command line of the kit is declared, and how it ends: the one convention.

A command is a module of two functions:

    add_parser(commands)    declares it, with ``subparser``
    run(args)               does it and returns the exit status; what it says goes to standard
                            output, and what is wrong is raised

``ended`` turns what was raised into one line on standard error, and into the status:

    0    done; or the reader of our output, such as ``head``, had enough
    1    what was looked at isn't right; a command itself says so
    2    the command was wrong, or this machine failed
    130  Ctrl-C
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ringside.errors import Interrupted, RingsideError

__all__ = ["complain", "ended", "split", "subparser"]


def subparser(
    commands: Any, name: str, summary: str, examples: str = ""
) -> argparse.ArgumentParser:
    """Add a command's parser to `commands`; its ``--help`` shows `examples` as they stand."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def split(words: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """A command line's own words (default: this process's), and what follows ``--``."""
    argv = list(sys.argv[1:] if words is None else words)
    cut = argv.index("--") if "--" in argv else len(argv)
    return argv[:cut], argv[cut + 1 :]


def ended(
    program: str,
    action: Callable[[], int],
    *,
    faults: tuple[type[Exception], ...] = (),
    stopped: str = "stopped.",
) -> int:
    """Do what a command line asked for; return its exit status.

    Args:
        program: who speaks, where something is wrong; empty: the error's class.
        action: the command; returns its own status.
        faults: what it raises with a message for the user, beside the kit's and the system's.
        stopped: what is said after Ctrl-C, where no rank was at work.
    """
    reported: tuple[type[Exception], ...] = (RingsideError, OSError, *faults)
    try:
        return action()
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # nothing more can be said
        return 0
    except reported as error:
        complain(program, error)
        return 2
    except KeyboardInterrupt as stop:
        start = "\n" if sys.stderr.isatty() else ""  # the terminal's own ^C stands there
        message = stop if isinstance(stop, Interrupted) else stopped
        print(f"{start}{program and f'{program}: '}{message}", file=sys.stderr)
        return 130


def complain(program: str, error: Exception) -> None:
    """One line on standard error: who speaks, or the error's class, and what is wrong."""
    message = _of_the_system(error) if isinstance(error, OSError) else error
    print(f"{program or type(error).__name__}: {message}", file=sys.stderr)


def _of_the_system(error: OSError) -> str:
    """What this machine refused, and the way round where a folder can't be written."""
    if error.filename is None or error.strerror is None:
        return str(error)
    message = f"{os.fspath(error.filename)}: {error.strerror}."
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        message += " Is the folder not yours? Work in a copy of it (`cp -r`)."
    return message
