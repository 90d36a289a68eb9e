"""The files that a sandbox shows: copies that any user may read, of regular files only."""

from __future__ import annotations

import compileall
import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from autograder import scratch
from ringside.kit import PACKAGE

__all__ = ["copy_modules", "kit", "write_all"]


def copy_modules(source: Path, target: Path, files: Sequence[str] | None) -> None:
    """Copy the planned files, regular ones only, readable for any user.

    Args:
        files: names as seen from `source`, in it or in a folder of it; None: all ``*.py`` there.
    """
    if files is None:
        paths = [*source.glob("*.py"), *source.glob("*/*.py")]
        files = sorted(path.relative_to(source).as_posix() for path in paths)
    target.mkdir()
    target.chmod(0o755)  # whatever the umask: the sandbox may be another user's
    for name in files:
        *folders, last = name.split("/")
        if len(folders) > 1 or any(part in ("", ".", "..") for part in (*folders, last)):
            raise ValueError(f"{name!r} is not a plain file name")
        path = source / name
        with contextlib.suppress(FileNotFoundError):
            is_link = any((source / folder).is_symlink() for folder in folders)
            if stat.S_ISREG(path.lstat().st_mode) and not is_link:
                content = _read_regular(path)
                for folder in folders:
                    (target / folder).mkdir(exist_ok=True)
                    (target / folder).chmod(0o755)
                (target / name).write_bytes(content)
                (target / name).chmod(0o644)


def _read_regular(path: Path) -> bytes:
    """The content of a file that is no link, even if it has become one since it was looked at."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        return stream.read()


def write_all(folder: Path, content: Mapping[str, bytes]) -> None:
    folder.mkdir()
    folder.chmod(0o755)
    for name, data in content.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)


@functools.cache
def kit() -> Path:
    """A copy of the students' toolkit, readable for any user and compiled; once a process.

    The checkout itself may lie in a folder that only root enters, beside the solutions.
    """
    source = PACKAGE
    stage = scratch.new("kit-")
    stage.chmod(0o755)
    target = stage / "ringside"
    shutil.copytree(source, target, symlinks=False, ignore=_closed, copy_function=_copy)
    # Here, since the copy is read-only inside: each program would compile it for itself.
    compileall.compile_dir(target, quiet=2)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def _closed(folder: str, names: list[str]) -> list[str]:
    """Compiled files that only another user may read: a grader of a class writes them so."""
    return [
        name
        for name in names
        if name == "__pycache__" and not os.access(Path(folder) / name, os.R_OK | os.X_OK)
    ]


def _copy(source: str, target: str) -> None:
    """Copy a file of the kit; compiled ones may be another user's, or just be written."""
    passed = (FileNotFoundError, PermissionError) if "__pycache__" in source else ()
    with contextlib.suppress(*passed):
        shutil.copy2(source, target)
