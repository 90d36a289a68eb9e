"""What an instructor reads in the terminal: names made harmless, and lines on standard error."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def printable(text: str) -> str:
    """A name without control characters: terminals obey some of them."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def say(*words: str) -> None:
    """A line on standard error, such as ``autograder: ada: handed in twice``."""
    print("autograder: " + ": ".join(map(printable, words)), file=sys.stderr)


def follow(line: str) -> None:
    """A line on standard error of something that takes long, such as a job on a cluster."""
    print(printable(line), file=sys.stderr, flush=True)


def console() -> Console:
    """Standard output; as wide as the table needs when it is not a terminal."""
    from rich.console import Console  # which ``--help`` needn't wait for

    screen = Console()
    return screen if screen.is_terminal else Console(width=140)
