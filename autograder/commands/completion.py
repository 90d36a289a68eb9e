"""``autograder completion``: what a shell needs to complete commands, options and files."""

from __future__ import annotations

import argparse

from autograder.course import assignment as plans
from autograder.course.course import Course
from ringside.commands.completion import HOW, SHELLS, script

NAME = "completion"
ABOUT = "print what a shell needs to complete commands"


def add_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("shell", choices=SHELLS)
    sub.epilog = HOW.format(prog="autograder")
    sub.formatter_class = argparse.RawDescriptionHelpFormatter


def run(options: argparse.Namespace) -> int:
    names = plans.known(Course.here())
    print(script(options.parser, options.shell, {"assignment": names, "assignments": names}))
    return 0
