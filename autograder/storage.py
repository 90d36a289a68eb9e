"""Files that are written whole or not at all, and what to say when they can't be."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

__all__ = ["StorageError", "explain", "write"]

_CURES = {
    errno.ENOSPC: "Free some room there",
    errno.EDQUOT: "Free some room there, or ask for a larger quota",
    errno.EROFS: "Make that file system writable",
    errno.EACCES: "Give this account the right to write there",
    errno.EPERM: "Give this account the right to write there",
    errno.ENOTDIR: "Move away the file that stands where a folder should",
}


class StorageError(OSError):
    """What a grading needs can't be written; the message names the file, the cause, the cure."""


def explain(path: Path | str, error: OSError) -> StorageError:
    """The fault in words: which file, why, and what to do."""
    number = error.errno or 0
    why = error.strerror or str(error)
    cure = _CURES.get(number, "See to that")
    return StorageError(
        f"{path} can't be written: {why}. {cure}, then start the command again: what was "
        "graded is kept."
    )


def write(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write ``data`` so that no reader sees a part of it, and no power cut leaves one.

    The temporary name is the file's own, ``.NAME.tmp``, and locked by who writes: what a writer
    that was killed has left is used by the next one.

    Raises:
        StorageError: it can't be written; what was there before is there still.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_alone(temporary, mode)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.truncate(0)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise explain(path, error) from error


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
