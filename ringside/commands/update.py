"""`ringside update`: a newer handout, with what the student wrote in it."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from ringside.commands.command import add, print_json

EXAMPLES = """\
examples:
  ringside update ~/Downloads/ringside-students.zip --dry-run    what would change
  ringside update ~/Downloads/ringside-students.zip
  ringside update ../newer-checkout          a folder, or a checkout of a repository
  ringside update                            after `pip install --upgrade ringside`

What you wrote stays: modules, cells of notebooks, files of your own. Where you and the kit changed
the same file, both are kept. What is replaced is kept in before-update-1/.
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(
        commands, "update", "bring your tree to a newer handout, with your work in it", EXAMPLES
    )
    parser.add_argument(
        "newer", nargs="?", type=Path, metavar="HANDOUT",
        help="a zip or folder (default: what the installed package brings)",
    )  # fmt: skip
    parser.add_argument(
        "--tree", type=Path, default=Path(), metavar="FOLDER",
        help="the tree to bring up to date (default: the one around this folder)",
    )  # fmt: skip
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would change, write nothing"
    )


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside import kit
    from ringside.course.handout import applying, newer, plan
    from ringside.course.handout.manifest import HandoutError

    tree = newer.tree_above(asked.tree)
    source = asked.newer or kit.handout_folder()
    if source is None:
        raise HandoutError("name the newer handout: `ringside update FILE.zip`.")
    with newer.opened(source) as folder, contextlib.ExitStack() as stack:
        if not asked.dry_run:
            stack.enter_context(applying.locked(tree))
            for line in applying.recover(tree):
                print(line)
        decided = plan.make(tree, folder)
        backup = None
        if not asked.dry_run and decided.steps:
            backup = applying.apply(tree, decided.steps)
    if asked.json:
        print_json({**decided.as_json(), "backup": str(backup) if backup else None})
        return 0
    print(decided.text())
    if asked.dry_run and decided.changes:
        print("Nothing was written, as asked.")
    elif backup is not None and decided.changes:
        print(f"What was replaced is kept in {backup.name}/, which you may remove.")
    if decided.install_again and not asked.dry_run:
        print("What the kit needs has changed: `make install` once more.")
    return 0
