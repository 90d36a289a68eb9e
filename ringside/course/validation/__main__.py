"""Print the validation table, or write it into the documentation."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ringside import command_line
from ringside.course.validation.report import markdown
from ringside.files import write_atomically

DOCUMENT = Path("lectures") / "validation.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write; 0: done."""
    parser = argparse.ArgumentParser(
        prog="python -m ringside.course.validation",
        description="Published measurements against what the kit's models predict.",
        epilog="example: python -m ringside.course.validation --write",
    )
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT} instead")
    args = parser.parse_args(arguments)

    def action() -> int:
        if args.write:
            write_atomically(DOCUMENT, markdown().encode())
        else:
            print(markdown(), end="")
        return 0

    return command_line.ended(parser.prog, action)


if __name__ == "__main__":
    raise SystemExit(main())
