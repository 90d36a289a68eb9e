"""`ringside hint`: for who is stuck in a module, one step more each time; it costs no points."""

from __future__ import annotations

import argparse
import difflib
import textwrap
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json

EXAMPLES = """\
examples:
  ringside hint zero3_torch             the next hint, after those that you have had
  ringside hint zero3_torch --again     those that you have had

A hint costs no points. `ringside progress` shows how many you have had; hints.json keeps the count
and is handed in.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "hint", "a hint for a module, one step more each time", EXAMPLES)
    parser.add_argument("module", help="such as ring, or ring.py")
    parser.add_argument("--again", action="store_true", help="only those that you have had")
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="the assignment's folder (default: here)"
    )


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking import public_tests, requirements
    from ringside.course.handin import hints_taken

    module = asked.module.removesuffix(".py")
    path = public_tests.find(asked.folder) / requirements.FILE
    modules = requirements.read(path)
    if module not in modules:
        near = difflib.get_close_matches(module, modules, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(modules)}."
        raise public_tests.CheckError(f"no module {module!r} here; {meant}")
    hints = modules[module].hints
    had = hints_taken.read(asked.folder).get(module, 0)
    shown = min(had if asked.again else had + 1, len(hints))
    if shown > had:
        hints_taken.add(asked.folder, module, shown)
    if asked.json:
        print_json({"module": module, "hints": hints[:shown], "of": len(hints)})
        return 0
    first = 0 if asked.again or had >= len(hints) else shown - 1
    for number, hint in enumerate(hints[first:shown], start=first + 1):
        begin = f"{number} of {len(hints)}  "
        print(textwrap.fill(hint, 88, initial_indent=begin, subsequent_indent=" " * len(begin)))
    if not hints[:shown]:
        print(f"You have had no hint for {module} yet." if hints else f"{module} has no hints.")
    elif had >= len(hints):
        print("These are all. `ringside check` says what is wrong now.")
    return 0
