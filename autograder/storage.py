"""Files that are written whole or not at all, and what to say when they can't be.

`write` is for what nobody can make again, such as decisions, results and records: it outlives a
power cut. Pages, tables and pictures go through `ringside.files.write_atomically`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = [
    "StorageError", "explain", "file_to_write", "folder_to_write", "making", "private_folder",
    "write",
]  # fmt: skip

_CURES = {
    errno.ENOSPC: "Free some room there",
    errno.EDQUOT: "Free some room there, or ask for a larger quota",
    errno.EROFS: "Make that file system writable",
    errno.EACCES: "Give this account the right to write there",
    errno.EPERM: "Give this account the right to write there",
    errno.ENOTDIR: "Move away the file that stands where a folder should",
    errno.EISDIR: "Name a file in that folder",
}


class StorageError(OSError):
    """What a grading needs can't be written; the message names the file, the cause, the cure."""


def explain(
    path: Path | str, error: OSError, *, again: str = "again: what was graded is kept."
) -> StorageError:
    """The fault in words: which file, why, and what to do."""
    number = error.errno or 0
    why = error.strerror or str(error)
    cure = _CURES.get(number, "Remove that cause")
    return StorageError(f"{path} can't be written: {why}. {cure}, then start the command {again}")


@contextlib.contextmanager
def making(*folders: Path, otherwise: str) -> Iterator[None]:
    """For a command that makes folders: tried first, and what goes wrong later is explained, too.

    Args:
        folders: where it will write.
        otherwise: another way out, a sentence.

    Raises:
        StorageError: nothing can be written there, or in the folder for temporary files.
    """
    again = f"again: nothing was changed. {otherwise}"
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise StorageError(
            f"There is no folder for temporary files: {error.strerror}. Free some room in one of "
            f"them, or set TMPDIR to a folder that can be written, then start the command {again}"
        ) from error
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=_there(folder)):
                pass
        except OSError as error:
            raise explain(folder, error, again=again) from error
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        cause = _first(error)
        if cause.errno not in _CURES or cause.filename is None:
            raise
        raise explain(cause.filename, cause, again=f"again. {otherwise}") from error


def _first(error: OSError) -> OSError:
    """The cause of an error of shutil's, which are lists of (source, target, text)."""
    if not isinstance(error, shutil.Error):
        return error
    _, target, text = error.args[0][0]
    number = int(match[1]) if (match := re.search(r"\[Errno (\d+)\]", str(text))) else 0
    return OSError(number, os.strerror(number), str(target))


def file_to_write(text: str | Path) -> Path:
    """The path of a file, named on a command line: refused before the work that it is to hold.

    Raises:
        StorageError: nothing can be written there.
    """
    path = Path(text)
    if path.is_dir():
        raise explain(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    _try(path, path.parent)
    return path


def folder_to_write(text: str | Path) -> Path:
    """As file_to_write, of a folder that files are to be written into."""
    path = Path(text)
    _try(path, path)
    return path


def _try(path: Path, folder: Path) -> None:
    """Begin a file in `folder`, or in what is there of it."""
    try:
        with tempfile.TemporaryFile(dir=_there(folder)):
            pass
    except OSError as error:
        raise explain(path, error) from error


def _there(folder: Path) -> Path:
    """The folder, or what is there of it."""
    return next((path for path in (folder, *folder.parents) if path.exists()), folder)


def write(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write ``data`` so that no reader sees a part of it, and no power cut leaves one.

    The temporary name is the file's own, ``.NAME.tmp``, and locked by who writes: what a writer
    that was killed has left is used by the next one.

    Raises:
        StorageError: it can't be written; what was there before is there still.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        private_folder(path.parent)
        descriptor = _open_alone(temporary, mode)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                # Now that it is locked: emptied as it is opened, it could be another writer's.
                stream.truncate(0)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                # Before the lock goes: who waits for it then finds the name free, and begins anew.
                os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise explain(path, error) from error


def private_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, for its owner alone."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def _open_alone(path: Path, mode: int) -> int:
    """The file, open and locked; the one that has this name now."""
    while True:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with contextlib.suppress(OSError):  # where files can't be locked, two write the same
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        os.close(descriptor)
