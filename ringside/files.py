"""Writing files: a file appears whole or not at all, and what a person made is kept."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

from ringside.errors import RingsideError

_ALIKE = 8  # bytes at the beginning that tell a picture from a program


class OutputError(RingsideError):
    """A file of another kind lies where an output would go."""


def write_atomically(path: Path, data: bytes, *, synced: bool = False) -> None:
    """Write ``data`` under a temporary name, then rename: nobody ever sees half a file.

    Args:
        synced: the data are on the disk before the file has its name, in case the machine goes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        # mkstemp made it 0600. A umask is read by setting it, so another thread may have none
        # meanwhile.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_output(path: Path, data: bytes) -> None:
    """Write an output into the file that a person named; only one of its kind is replaced.

    Raises:
        OutputError: the file that is there begins in another way, so it is no earlier output.
    """
    if path.is_file():
        with path.open("rb") as file:
            there = file.read(_ALIKE)
        if there and there != data[:_ALIKE]:
            raise OutputError(
                f"{path} is there and holds something else: name another file, or remove it."
            )
    write_atomically(path, data)


def keep(path: Path, before: str) -> str:
    """Copy a file before it is overwritten, such as ring.py.before-sync-1; gives the name."""
    for number in itertools.count(1):
        backup = path.with_name(f"{path.name}.before-{before}-{number}")
        try:
            with backup.open("xb") as copied:
                copied.write(path.read_bytes())
        except FileExistsError:
            continue
        return backup.name
    raise AssertionError("numbers end")
