"""Which texts cells have written into which files: another text in a file is a person's.

    .ringside/cells.sha256    9f86d081884c7d65...  ring.py    a line for each text, in their order

Whoever holds the record holds a lock: two kernels write one after the other.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".ringside"
NAME = "cells.sha256"


def module_sha256(source: bytes) -> str:
    """The name of a module's exact content, however its lines and its last line end.

    A notebook's cell has no line end after its last line, and the file written from it has one.
    A byte order mark, which a file may begin with, never gets into a cell.
    """
    lines = source.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").rstrip(b"\n") + b"\n"
    return hashlib.sha256(lines).hexdigest()


@dataclass(frozen=True)
class Record:
    """The texts that cells of a folder's notebooks have written."""

    descriptor: int
    digests: dict[str, list[str]]  # of each file, in the order in which they were written

    def has(self, file: str, data: bytes) -> bool:
        """Whether a cell wrote this text into the file."""
        return module_sha256(data) in self.digests.get(file, ())

    def is_last(self, file: str, data: bytes) -> bool:
        """Whether this is what a cell wrote last."""
        return self.digests.get(file, [])[-1:] == [module_sha256(data)]

    def add(self, file: str, data: bytes) -> None:
        """Remember that a cell wrote it."""
        if not self.is_last(file, data):
            digest = module_sha256(data)
            os.write(self.descriptor, f"{digest}  {file}\n".encode())
            self.digests.setdefault(file, []).append(digest)


@contextlib.contextmanager
def record(folder: Path) -> Iterator[Record]:
    """The record of a folder, which nobody else writes meanwhile.

    Raises:
        OSError: it can't be written.
    """
    path = folder / FOLDER / NAME
    path.parent.mkdir(exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Read behind the lock: whoever held it before may have added lines.
        digests: dict[str, list[str]] = {}
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            digest, _, file = line.partition("  ")
            digests.setdefault(file, []).append(digest)
        yield Record(descriptor, digests)
    finally:
        os.close(descriptor)
