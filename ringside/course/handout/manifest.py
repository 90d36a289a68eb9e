"""What a handout holds: a digest of each file and cell, and the text of each module's stub.

    .ringside/handout.json
        {"version": "0.3.0",
         "files": {"assignments/a03_allreduce/shards.py": "9f86d081884c7d65", ...},
         "cells": {"assignments/a03_allreduce/a03_allreduce.ipynb": {"ring": "..."}},
         "stubs": {"assignments/a03_allreduce/a03_allreduce.ipynb": {"ring": "%%module ..."}}}

With it `ringside update` tells what a student wrote from what was handed out, and merges a stub
that changes. Digests are of text whose lines end in a line feed, so a checkout or an editor with
other line ends changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ringside import kit
from ringside.checking.notebook import KEPT
from ringside.errors import RingsideError
from ringside.output_folder import MARKER

__all__ = [
    "NAME",
    "Handout",
    "HandoutError",
    "digest",
    "files_of",
    "text_digest",
]

NAME = ".ringside/handout.json"
# What programs leave in a tree, and what updates do: nobody hands it out.
_NOT_HANDED_OUT = (
    *("__pycache__", "*.pyc", "build", "*.egg-info", "before-update-*", MARKER),
    *(".git", ".venv", ".ringside*", ".*_cache", ".ipynb_checkpoints", ".DS_Store", ".*.sw?"),
    *("run.json", "run.log", "run.sbatch", "run.trace.gz", "guesses.json", "hints.json"),
    "nbgrader_config.py",
    *KEPT,
)
_DIGITS = 16


class HandoutError(RingsideError):
    """A tree that is no handout, or that can't be laid out or brought up to date."""


@dataclass(frozen=True)
class Handout:
    """The files that were handed out, by their names in the tree."""

    version: str
    files: Mapping[str, str]  # name -> digest
    cells: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # notebook -> id -> digest
    stubs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # notebook -> id -> text

    @classmethod
    def of(cls, folder: Path, version: str = kit.VERSION) -> Handout:
        """Describe a tree as it lies there."""
        files, cells, stubs = {}, {}, {}
        for name, path in files_of(folder):
            data = path.read_bytes()
            files[name] = digest(data)
            if name.endswith(".ipynb"):
                cells[name] = _cells(data)
                if texts := _stubs(data):
                    stubs[name] = texts
        return cls(version, files, cells, stubs)

    @classmethod
    def read(cls, folder: Path) -> Handout | None:
        """What a tree's own file says; None where there is none.

        Raises:
            HandoutError: the file is damaged.
        """
        path = folder / NAME
        if not path.is_file():
            return None
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise HandoutError(f"{path} can't be read: {error}") from None
        try:
            entries: Any = json.loads(text)
            files = {str(name): str(value) for name, value in entries["files"].items()}
            cells, stubs = (
                {
                    str(name): {str(key): str(value) for key, value in ids.items()}
                    for name, ids in table.items()
                }
                for table in (entries["cells"], entries["stubs"])
            )
            return cls(str(entries["version"]), files, cells, stubs)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise HandoutError(
                f"{path} is damaged: take it from the bundle that this tree came from, or move it "
                "away; then your changes of supplied files are found by comparison alone."
            ) from None

    def as_bytes(self) -> bytes:
        """The file's content; the same for the same tree."""
        content = {
            "version": self.version,
            "files": self.files,
            "cells": self.cells,
            "stubs": self.stubs,
        }
        return (json.dumps(content, indent=0, sort_keys=True) + "\n").encode()

    def write(self, folder: Path) -> None:
        """Write the tree's file."""
        (folder / NAME).parent.mkdir(exist_ok=True)
        (folder / NAME).write_bytes(self.as_bytes())


def digest(data: bytes) -> str:
    """The name of a file's content, however its lines end."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()[:_DIGITS]


def text_digest(text: str) -> str:
    """The name of a cell's text; white space at its end doesn't count."""
    return digest(text.rstrip().encode("utf-8", "surrogatepass"))


def source_of(cell: Mapping[str, Any]) -> str:
    """A cell's text."""
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _cells(data: bytes) -> dict[str, str]:
    """The digests of a notebook's cells by their ids; none of a file that is no notebook."""
    try:
        cells = json.loads(data)["cells"]
        return {
            str(cell.get("id", f"#{number}")): text_digest(source_of(cell))
            for number, cell in enumerate(cells)
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stubs(data: bytes) -> dict[str, str]:
    """The cells in which a module is to be written, by nbgrader's names of them."""
    try:
        return {
            str(marks["grade_id"]): source_of(cell)
            for cell in json.loads(data)["cells"]
            if cell.get("cell_type") == "code"
            and (marks := cell["metadata"].get("nbgrader"))
            and marks.get("solution")
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a handout by their names in it; links are followed, caches left out."""
    for root, names, files in os.walk(folder, followlinks=True):
        names[:] = sorted(name for name in names if _counts(name))
        for name in sorted(files):
            path = Path(root, name)
            if _counts(name) and path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _counts(name: str) -> bool:
    return not any(fnmatch(name, pattern) for pattern in _NOT_HANDED_OUT)
