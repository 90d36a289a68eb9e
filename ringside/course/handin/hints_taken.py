"""How many hints of each module a student has taken: a file beside the notebook.

    hints.json    {"ring": 2, "star": 1}

It is handed in, and no points depend on it. What students hand in is read by the same function, so
it believes nothing: what is no such count is as if no hint had been taken.
"""

from __future__ import annotations

import json
from pathlib import Path

from ringside.checking.requirements import MOST_HINTS
from ringside.files import keep, write_atomically

__all__ = ["MOST_BYTES", "NAME", "add", "parse", "read"]

NAME = "hints.json"
MOST_BYTES = 4096


def read(folder: Path) -> dict[str, int]:
    """The hints taken in an assignment's folder, by module."""
    try:
        with (folder / NAME).open("rb") as file:
            return parse(file.read(MOST_BYTES + 1))
    except OSError:
        return {}


def parse(data: bytes) -> dict[str, int]:
    """The counts in a file's bytes, each from 1 to `MOST_HINTS`."""
    try:
        content = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        return {}
    counts = range(1, MOST_HINTS + 1)
    return {
        name: count for name, count in content.items() if type(count) is int and count in counts
    }


def add(folder: Path, module: str, count: int) -> None:
    """Keep how many hints of a module were shown."""
    path, before = folder / NAME, read(folder)
    try:
        if path.is_file() and not before:  # no file of ours
            keep(path, "hint")
        write_atomically(path, json.dumps({**before, module: count}).encode() + b"\n")
    except OSError:  # a folder that can't be written: the hint itself matters more
        return
