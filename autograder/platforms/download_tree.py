"""A platform's download as files: a folder, or the platform's archive, and whose names it has."""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import Protocol

from autograder.collect.quarantine import Rejected, inspect, read_regular
from autograder.collect.zip_archive import DAMAGED, MIB, Refused, directory_size
from autograder.course.limits import Limits
from autograder.platforms.gradescope.metadata import METADATA

# The first of these in a name is the platform's; what follows is the student's own.
MARK = re.compile(r"_(\d+)_(?:(\d+)_|assignsubmission_(file|onlinetext)(?:_|$))")
_SUBMISSION = re.compile(r"submission_(\d+)")
_NO_FILES = {"__MACOSX", "Thumbs.db", "desktop.ini"}
_MOST_ENTRIES = 100_000  # of a platform's archive: hundreds of students' files


class Tree(Protocol):
    """A download: a folder, or an archive."""

    path: Path

    def tops(self) -> dict[str, bool]:
        """The names at its top, and whether each is a folder."""

    def below(self, top: str, limits: Limits) -> tuple[list[str], list[str]]:
        """The files in a folder at its top; and what is said of those that aren't read."""

    def read(self, name: str, max_bytes: int) -> bytes:
        """A file of at most so many bytes. Raises Rejected."""

    def stamp(self, name: str) -> str:
        """What changes where the file does."""


class Folder:
    """An unpacked download."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def tops(self) -> dict[str, bool]:
        with os.scandir(self.path) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}

    def below(self, top: str, limits: Limits) -> tuple[list[str], list[str]]:
        inspection = inspect(self.path / top, limits)
        return list(inspection.files), [
            f"{name} {why}." for name, why in inspection.refused.items()
        ]

    def read(self, name: str, max_bytes: int) -> bytes:
        return read_regular(self.path / name, max_bytes)

    def stamp(self, name: str) -> str:
        status = os.lstat(self.path / name)
        return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"


class Archive:
    """A platform's archive; a folder around everything is taken off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive = zipfile.ZipFile(path)
        entries = {
            entry.filename: entry
            for entry in self._archive.infolist()
            if not is_ignored(entry.filename.split("/")[0])
        }
        tops = {name.split("/")[0] for name in entries}
        around = tops.pop() if len(tops) == 1 else ""
        if platform_of(around, True) is None and all(
            entry.startswith(f"{around}/") for entry in entries
        ):
            entries = {name.split("/", 1)[1]: entry for name, entry in entries.items()}
        # An empty folder is somebody's, too.
        self._tops = {name.split("/")[0]: "/" in name for name in entries if name}
        self._members = {
            name: entry
            for name, entry in entries.items()
            if not entry.is_dir() and not is_ignored(name)
        }

    def tops(self) -> dict[str, bool]:
        return dict(self._tops)

    def below(self, top: str, limits: Limits) -> tuple[list[str], list[str]]:
        names = [name.split("/", 1)[1] for name in self._members if name.startswith(f"{top}/")]
        return names, []

    def read(self, name: str, max_bytes: int) -> bytes:
        if self._members[name].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            # Others ask for memory as they like, and this is the grader's own process.
            raise Rejected(f"{name} is packed in a way that no platform uses: it is not read.")
        try:
            with self._archive.open(self._members[name]) as stream:
                content = stream.read(max_bytes + 1)
        except (*DAMAGED, OSError) as error:
            raise Rejected(f"{name} is damaged in {self.path.name}: {error}.") from error
        if len(content) > max_bytes:
            raise Rejected(f"{name} is larger than {max_bytes / MIB:g} MiB.")
        return content

    def stamp(self, name: str) -> str:
        return f"{self._members[name].CRC} {self._members[name].file_size}"


def tree_of(path: Path) -> Tree | None:
    if path.is_dir():
        return Folder(path) if os.access(path, os.R_OK | os.X_OK) else None
    if path.suffix != ".zip" or path.is_symlink():
        return None
    try:
        # Before zipfile opens it, which makes an object for each entry that it names.
        directory_size(path, most=_MOST_ENTRIES, max_bytes=32 * MIB)
        return Archive(path)
    except (Refused, OSError, *DAMAGED):
        return None  # that is said where it is read as a submission


def is_ignored(name: str) -> bool:
    parts = name.split("/")
    return any(part.startswith(".") or part in _NO_FILES for part in parts[:1] + parts[-1:])


def platform_of(name: str, folder: bool) -> str | None:
    """The platform that gives such names."""
    if (folder and _SUBMISSION.fullmatch(name)) or (name == METADATA and not folder):
        return "Gradescope"
    mark = MARK.search(name)
    if mark is None:
        return None
    if mark[3]:
        return "Moodle" if not folder or mark.end() == len(name) else None
    return "Canvas" if not folder and mark.end() < len(name) else None
