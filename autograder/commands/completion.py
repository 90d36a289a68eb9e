"""``autograder completion``: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse
from typing import Any

from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.command_line import subparser
from ringside.commands.completion import HOW, SHELLS, script


def add_parser(commands: Any) -> None:
    sub = subparser(
        commands,
        "completion",
        "print what a shell needs to complete commands",
        HOW.format(prog="autograder"),
    )
    sub.add_argument("shell", choices=SHELLS)


def run(options: argparse.Namespace) -> int:
    names = plans.known(Course.here())
    print(script(options.parser, options.shell, {"assignment": names, "assignments": names}))
    return 0
