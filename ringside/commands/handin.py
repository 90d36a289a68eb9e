"""`ringside handin`: validate, and hand the assignment in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ringside.commands.command import add, add_sync, print_json, sync

EXAMPLES = """\
examples:
  ringside handin                    validate, then hand in (nbgrader's exchange, else a zip)
  ringside handin --from-notebook    first write the files from the notebook's cells
  ringside handin --from-files       first write the notebook's cells from the files
"""


def add_parser(commands: Any) -> None:
    """The command and its options."""
    parser = add(commands, "handin", "validate, and hand the assignment in", EXAMPLES)
    parser.add_argument(
        "--folder", type=Path, default=Path(), help="the assignment's folder (default: here)"
    )
    parser.add_argument(
        "--zip", action="store_true", help="make the zip even if an exchange is configured"
    )
    parser.add_argument(
        "--regrade",
        default="",
        metavar="TEXT",
        help="ask to have the grade looked at again: which module, and why. It is handed in as "
        "regrade.txt; if nothing else changed, the time of your hand-in stays",
    )
    parser.add_argument("--dry-run", action="store_true", help="validate only")
    add_sync(parser)


def run(asked: argparse.Namespace) -> int:
    """Do it; return the exit status."""
    from ringside.checking import saved_progress
    from ringside.course.handin import handin

    if not sync(asked, ()):
        return 2
    receipt = handin.hand_in(
        asked.folder, force_zip=asked.zip, dry_run=asked.dry_run, regrade=asked.regrade
    )
    if not asked.dry_run:
        saved_progress.add_hand_in(asked.folder, receipt.way)
    if asked.json:
        print_json(receipt.as_json())
    else:
        print(receipt.text())
    return 0
