"""A folder that a command makes, and makes anew: it removes only what it can prove it made.

    FOLDER/.ringside-made    {"command": "autograder bundle", "files": {"README.md": "9f86d0..."}}
    .FOLDER.new-3f9a20       the new one, beside it, until it is whole

A command replaces a folder that is empty, or that bears the command's own mark and holds nothing
else than what was there when it was marked. The old one goes after the new one has its name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError

__all__ = [
    "FolderError", "begin", "beside", "contents", "made_anew", "mark", "numbered", "replace",
    "set_aside", "strangers", "usable",
]  # fmt: skip

MARKER = ".ringside-made"
CACHES = ("__pycache__", ".pytest_cache")  # programs write these wherever they run
SHOWN = 4  # names in a message


class FolderError(RingsideError):
    """A folder that a command may not replace: it can't prove that it made all of it."""


@contextlib.contextmanager
def made_anew(
    folder: Path, command: str, *, protected: Sequence[Path] = (), exact: bool = True
) -> Iterator[Path]:
    """Give an empty folder beside ``folder``, which takes its place once all has gone well.

    Args:
        folder: what is to be made, or replaced.
        command: who makes it, as it is typed: ``autograder bundle``.
        protected: neither these nor a folder above them is replaced, nor are the home and the
            current folder.
        exact: False: what it has made may change later; what is added is still refused.

    Raises:
        FolderError: the folder isn't the command's to replace.
        OSError: it can't be written.
    """
    target = usable(folder, command, protected=protected)
    with beside(target) as fresh:
        yield fresh
        mark(fresh, command, exact=exact)
        usable(target, command, protected=protected)  # something may have been put there meanwhile
        replace(fresh, target)


@contextlib.contextmanager
def beside(place: Path) -> Iterator[Path]:
    """Give an empty folder with the same parent, to be renamed; else it is removed again."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = _free(place, "new")
    fresh.mkdir()
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def begin(folder: Path, command: str) -> None:
    """Make an empty folder for what other processes write later: all in it will be the command's.

    Raises:
        FolderError: the folder isn't the command's to replace.
    """
    target = usable(folder, command)
    if target.is_dir():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    _write_mark(target, command, None)


def usable(folder: Path, command: str, *, protected: Sequence[Path] = ()) -> Path:
    """Return where the folder is, links followed, if the command may make or replace it.

    Raises:
        FolderError: it may not; the message says what is in the way.
    """
    target = folder.resolve()
    if not os.path.lexists(target):
        return target
    if not target.is_dir():
        raise FolderError(f"{target} is not a folder: name another place.")
    for other in (*protected, *_always_protected()):
        if _is_at_or_above(target, other):
            above = "" if os.path.samefile(target, other) else f" since {other} is in it"
            raise FolderError(f"`{command}` never replaces {target}{above}: name a new folder.")
    if names := strangers(target, command):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise FolderError(
            f"{target} holds what `{command}` did not make: {', '.join(names[:SHOWN])}{more}. Name "
            "another folder, or move this one away."
        )
    return target


def strangers(folder: Path, command: str) -> list[str]:
    """What lies in a folder and was not made by the command, or was changed since."""
    record = _read_mark(folder)
    if record.get("command") != command:
        return sorted(path.name for path in folder.iterdir())
    files = record.get("files")
    if files is None:
        return []
    return [
        f"{name} (changed)" if name in files else name
        for name, digest in contents(folder).items()
        if files.get(name) not in ("", digest)
    ]


def contents(folder: Path) -> dict[str, str]:
    """The files and links in a folder by name, each with a digest; without caches and the mark."""
    digests = {}
    for parent, names, files in os.walk(folder):
        links = [name for name in names if os.path.islink(os.path.join(parent, name))]
        for name in (*links, *files):
            path = Path(parent, name)
            digests[path.relative_to(folder).as_posix()] = _digest(path)
        names[:] = [n for n in names if n not in CACHES and not n.endswith(".egg-info")]
    digests.pop(MARKER, None)
    return dict(sorted(digests.items()))


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    if not path.is_file():
        return "no file"
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def mark(folder: Path, command: str, *, exact: bool = True) -> None:
    """Write down in the folder who made it, and what is in it."""
    here = contents(folder)
    _write_mark(folder, command, here if exact else dict.fromkeys(here, ""))


def _write_mark(folder: Path, command: str, files: dict[str, str] | None) -> None:
    text = json.dumps({"command": command, "files": files}, indent=0)
    (folder / MARKER).write_text(text + "\n", encoding="utf-8")


def _read_mark(folder: Path) -> dict[str, Any]:
    path = folder / MARKER
    if path.is_symlink():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return {"command": record["command"], "files": record["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def replace(fresh: Path, place: Path, *, keep: Path | None = None) -> None:
    """Give ``fresh`` the name ``place``; what has it is removed afterwards, or moved to ``keep``.

    If that fails, what was there is there again.
    """
    # Two renames: no call puts a folder in the place of one that holds something.
    old = _free(place, "old")
    try:
        os.rename(place, old)
    except FileNotFoundError:
        os.rename(fresh, place)
        return
    try:
        os.rename(fresh, place)
    except BaseException:
        os.rename(old, place)
        raise
    if keep is None:
        shutil.rmtree(old)
    else:
        keep.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(old, keep)


def set_aside(path: Path) -> Path:
    """Rename what isn't ours, ``run.log`` to ``run.log.1``; return the new name."""
    new_path = numbered(path)
    os.rename(path, new_path)
    return new_path


def numbered(path: Path) -> Path:
    """The path, or the first of ``path.1``, ``path.2``, ... that isn't there yet."""
    free, number = path, 0
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def _free(place: Path, word: str) -> Path:
    return place.with_name(f".{place.name}.{word}-{secrets.token_hex(3)}")


def _always_protected() -> Iterator[Path]:
    with contextlib.suppress(RuntimeError):
        yield Path.home()
    with contextlib.suppress(FileNotFoundError):
        yield Path.cwd()


def _is_at_or_above(place: Path, other: Path) -> bool:
    """Whether ``other`` would go with ``place``, by whatever names the two are called."""
    way = (other.resolve(), *other.resolve().parents)
    return any(step.exists() and step.samefile(place) for step in way)
