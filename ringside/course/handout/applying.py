"""An update, done whole or not at all.

    TREE/.ringside-update/new/...        1. all that is to be written (a full disk is met here)
    TREE/before-update-1/...             2. what stands in its place now: the backup, which stays
    TREE/.ringside-update/journal.json   3. from here on, until it is removed, files are renamed
    TREE/...                             4. each file gets its place by a rename

An error while files are renamed undoes all of it. If the process is killed there, the next update
finds the journal and undoes it first; a file that somebody has changed since then stays as it is.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ringside.course.handout.manifest import HandoutError, digest
from ringside.course.handout.plan import Step
from ringside.files import write_atomically

__all__ = ["BACKUP", "apply", "locked", "recover"]

BACKUP = "before-update"
_WORK = ".ringside-update"
_JOURNAL = "journal.json"


@contextlib.contextmanager
def locked(tree: Path) -> Iterator[None]:
    """Keep other updates of the tree out.

    Raises:
        HandoutError: one is at work.
    """
    descriptor = os.open(tree, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HandoutError(f"another update of {tree} is at work: wait for its end.") from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EBADF):
                raise
            # A file system without locks (some of those on a network): go on without.
        yield
    finally:
        os.close(descriptor)


def recover(tree: Path) -> list[str]:
    """Undo an update that was killed; say what was done."""
    work = tree / _WORK
    if not (work / _JOURNAL).is_file():
        shutil.rmtree(work, ignore_errors=True)  # nothing had been touched
        return []
    journal: dict[str, Any] = json.loads((work / _JOURNAL).read_text(encoding="utf-8"))
    backup = tree / journal["backup"]
    conflicts = _undo(tree, backup, journal["steps"])
    shutil.rmtree(work)
    if conflicts:
        names = ", ".join(conflicts)
        return [
            f"An update that was stopped has been undone, but for what was changed since: {names}. "
            f"What these files were before is in {backup.name}."
        ]
    shutil.rmtree(backup, ignore_errors=True)
    return ["An update that was stopped has been undone."]


def apply(tree: Path, steps: Sequence[Step]) -> Path | None:
    """Do all steps; return the folder that holds what was there before, if anything was.

    Raises:
        OSError: it can't be done, and nothing was changed.
    """
    # In the tree, since a rename can't cross file systems. Callers hold `locked` and have called
    # `recover`, so nobody else's work is there.
    work, backup = tree / _WORK, _free_backup(tree)
    done: list[dict[str, Any]] = []
    try:
        work.mkdir()
        for step in steps:
            if step.data is not None:
                _write(work / "new" / step.name, step.data, tree / step.name)
        listed = [_keep(tree, backup, step) for step in steps]
        with _uninterrupted():
            journal = {"backup": backup.name, "steps": listed}
            write_atomically(work / _JOURNAL, json.dumps(journal, indent=0).encode())
            for step, entry in zip(steps, listed, strict=True):
                done.append(entry)
                _put(tree, work / "new" / step.name, step)
            (work / _JOURNAL).unlink()  # from here on it is done
    except BaseException:
        _undo(tree, backup, done)
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(backup, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)
    return backup if backup.is_dir() else None


def _free_backup(tree: Path) -> Path:
    number = 1
    while os.path.lexists(tree / f"{BACKUP}-{number}"):
        number += 1
    return tree / f"{BACKUP}-{number}"


def _write(path: Path, data: bytes, place: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if place.is_file():
        shutil.copymode(place, path)


def _keep(tree: Path, backup: Path, step: Step) -> dict[str, Any]:
    """Put what a step replaces into the backup; return its line of the journal."""
    path, copy = tree / step.name, backup / step.name
    entry = {"name": step.name, "new": step.digest, "had": path.is_file()}
    if entry["had"]:
        copy.parent.mkdir(parents=True, exist_ok=True)
        _link_or_copy(path.resolve(), copy)
    return entry


def _link_or_copy(source: Path, target: Path) -> None:
    """A second name of a file that is only ever replaced by renaming; a copy where there is none.

    Not of a file that has more names already: who writes through one of them would change it.
    """
    if source.stat().st_nlink == 1:
        with contextlib.suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


def _put(tree: Path, staged: Path, step: Step) -> None:
    path = tree / step.name
    if step.data is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(staged, path)
        return
    path.unlink(missing_ok=True)
    for folder in path.parents:  # folders that are empty now were the kit's
        if folder == tree:
            break
        try:
            folder.rmdir()
        except OSError:
            break


def _undo(tree: Path, backup: Path, entries: Sequence[dict[str, Any]]) -> list[str]:
    """Put back what the steps replaced; return the names of files that were changed since."""
    conflicts = []
    for entry in reversed(entries):
        path, copy = tree / entry["name"], backup / entry["name"]
        now = digest(path.read_bytes()) if path.is_file() else None
        if now == entry["new"]:
            if entry["had"]:
                path.parent.mkdir(parents=True, exist_ok=True)
                fresh = path.with_name(f".{path.name}.undo")
                fresh.unlink(missing_ok=True)
                _link_or_copy(copy, fresh)
                os.replace(fresh, path)
            else:
                path.unlink(missing_ok=True)
        elif not entry["had"] or now != digest(copy.read_bytes()):
            conflicts += [entry["name"]] if now is not None or entry["had"] else []
    return conflicts


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait while files get their places: it takes less than a second."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, where no Ctrl-C comes
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
