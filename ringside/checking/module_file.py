"""What running a cell does to the module that it names: `%%module ring.py`.

    the file                      the cell                   then
    isn't there                                              the cell is written
    is what the cell holds                                   nothing is to be done
    is something else             as it was handed out       the file stays
    was written by a cell                                    the cell is written
    was changed since             as when it last wrote      the file stays
    is of somebody else           changed                    the cell is written, and the file
                                                             kept as ring.py.before-cell-1

A kernel doesn't see which cell it runs. That a text is as it was handed out is told by nbgrader's
checksum in the notebooks of the folder, which doesn't change while a notebook isn't saved. Without
a notebook there, as on Colab, a cell that still has a part to be written gives way to a file that
has none.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from ringside.checking import cell_records, cell_text, notebook
from ringside.checking.cell_records import module_sha256
from ringside.errors import RingsideError
from ringside.files import keep, write_atomically

__all__ = ["ModuleFileError", "write"]

_NAME = re.compile(r"[A-Za-z_]\w*\.py", re.ASCII)


class ModuleFileError(RingsideError):
    """A cell that can't be written into the file that it names."""


def write(folder: Path, file: str, cell: str) -> str:
    """Write a cell into its file, unless the file holds what this cell doesn't know.

    Args:
        folder: the notebook's; the file lies in it.
        file: such as "ring.py".
        cell: the text below the first line.

    Returns:
        What was done, in a sentence or two.

    Raises:
        ModuleFileError: nothing was written, and why.
    """
    if not _NAME.fullmatch(file):
        raise ModuleFileError(
            f"{file!r} is no module's file: name one in this folder, such as `%%module ring.py`."
        )
    text = cell.replace("\r\n", "\n").removeprefix("\ufeff").rstrip("\n") + "\n"
    if not text.strip():
        raise ModuleFileError(f"the cell is empty: {file} stays as it is.")
    try:
        return _write(folder / file, text, text.encode())
    except UnicodeEncodeError:
        raise ModuleFileError(
            f"the cell holds half a character: {file} stays as it is. Type that place anew."
        ) from None
    except OSError as error:
        raise ModuleFileError(f"{file} can't be written: {error.strerror}.") from None


def _write(path: Path, text: str, data: bytes) -> str:
    file = path.name
    if path.is_dir():
        raise ModuleFileError(f"{file} is a folder here: rename it, and run the cell again.")
    with cell_records.record(path.parent) as record:
        there = path.read_bytes() if path.is_file() else None
        if there is not None and module_sha256(there) == module_sha256(data):
            record.add(file, data)
            return f"{file} holds this already."
        if there is not None and _is_handed_out(path, text, there):
            return (
                f"{file} stays as it is: this cell is as it was handed out, and the file, which "
                "counts, is not."
            )
        ours = there is None or record.has(file, there)
        if not ours and record.is_last(file, data):
            return (
                f"{file} stays as it is: it was changed since this cell wrote it, and the cell "
                f"was not. `ringside check {path.stem} --from-notebook` takes the cell."
            )
        _refuse(path)
        backup = "" if ours else keep(path, "cell")
        write_atomically(path, data)
        record.add(file, data)
    return f"Wrote {file}." + (f" What was there is kept as {backup}." if backup else "")


def _is_handed_out(path: Path, text: str, there: bytes) -> bool:
    """Whether nobody has written anything in the cell, and something else is in the file."""
    checksums = notebook.checksums(path.parent, path.name)
    if checksums:
        return any(cell_text.released(text, path.name, path.stem, one) for one in checksums)
    unfinished = cell_text.STUB.search(text) is not None
    return unfinished and not cell_text.STUB.search(there.decode("utf-8", "replace"))


def _refuse(path: Path) -> None:
    """Stop at what somebody has put there on purpose."""
    if path.is_symlink():
        raise ModuleFileError(
            f"{path.name} is a link to {os.readlink(path)}: nothing was written. Remove the link, "
            "or edit that file."
        )
    if path.exists() and not path.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise ModuleFileError(
            f"{path.name} is read-only: nothing was written. `chmod u+w {path.name}` lets the "
            "cell write it."
        )
