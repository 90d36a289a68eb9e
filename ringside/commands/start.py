"""`ringside start`: the course's assignments and lectures, from an installed package."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json

EXAMPLES = """\
examples:
  ringside start parallel-deep-learning
  cd parallel-deep-learning/assignments/a03_allreduce && jupyter lab
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "start", "lay out assignments and lectures in a new folder", EXAMPLES)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder")


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.course.handout.laying import lay

    folder = lay(asked.folder)
    names = sorted(path.name for path in (folder / "assignments").iterdir())
    if asked.json:
        print_json({"folder": str(folder), "assignments": names})
    else:
        print(
            f"{folder} holds the assignments and the lectures. README.md says what is where:\n"
            f"  cd {asked.folder}/assignments/{names[0]}\n"
            f"  jupyter lab {names[0]}.ipynb"
        )
    return 0
