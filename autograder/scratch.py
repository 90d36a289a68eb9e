"""Where the autograder puts what it needs for a while: one folder a run, which goes with the run.

What is to be renamed into its place is made beside that place (`ringside.output_folder.beside`),
and everything else here.

    $TMPDIR/ringside-run-k3x9q/lock           held by everybody who uses the folder
                               suite-.../     modules under test, records, copies of the kit, ...

Nobody clears up after their own SIGKILL, but the kernel lets go of their lock. So the last one
to hold it removes the folder: the grader as it ends; the nursery, when its grader was killed; the
next run, when both were. A folder of a run that lives is never touched, nor one with files and
without a lock: somebody else may call it so.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["folder", "fresh", "join", "lay", "leave", "new", "sweep"]

PREFIX = "ringside-run-"


@dataclass(frozen=True)
class _Held:
    folder: Path
    lock: int
    owner: int  # the process that took the lock; its forks use the folder and don't remove it


_held: list[_Held] = []
_taking = threading.Lock()


def folder() -> Path:
    """This run's folder; made, and dead runs' folders removed, when it is first asked for."""
    with _taking:
        if not _held:
            sweep()
            _held.append(_make())
        return _held[0].folder


def new(prefix: str) -> Path:
    """A new folder of this run."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder()))


def lay(names: Iterable[str], source: Path, target: Path) -> None:
    """Copy files by their names as seen from ``source``, folders and all, into ``target``."""
    for name in names:
        (target / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source / name, target / name)


@contextlib.contextmanager
def fresh(prefix: str) -> Iterator[Path]:
    """A new folder of this run, for as long as the context lasts."""
    path = new(prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def join(run: Path) -> bool:
    """Use another process's folder from now on; False if that run is over."""
    with _taking:
        try:
            lock = _open(run)
        except FileNotFoundError:
            return False
        if not _take(lock, fcntl.LOCK_SH) or not _is_at(run, lock):
            os.close(lock)
            return False
        _held[:] = [_Held(run, lock, os.getpid())]
        return True


@atexit.register
def leave(patience_s: float = 0.0) -> None:
    """Give the folder up, and remove it if nobody else uses it.

    Args:
        patience_s: how long to wait for others that are about to end.
    """
    with _taking:
        while _held:
            held = _held.pop()
            if held.owner == os.getpid():
                end = time.monotonic() + patience_s
                while not _remove(held.folder, held.lock) and time.monotonic() < end:
                    time.sleep(0.01)
            os.close(held.lock)


def _make() -> _Held:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):  # a sweep took it for a dead run's
            path.chmod(0o711)
            lock = _open(path, os.O_CREAT)
            if _take(lock, fcntl.LOCK_SH) and _is_at(path, lock):
                return _Held(path, lock, os.getpid())
            os.close(lock)


def sweep() -> None:
    """Remove what runs have left that were killed with all their processes."""
    for run in Path(tempfile.gettempdir()).glob(PREFIX + "[a-z0-9_]" * 8):  # as mkdtemp names them
        with contextlib.suppress(OSError):
            status = run.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                try:
                    lock = _open(run)
                except FileNotFoundError:
                    run.rmdir()  # killed before it had a lock; or somebody else's, and not empty
                    continue
                try:
                    _remove(run, lock)
                finally:
                    os.close(lock)


def _remove(run: Path, lock: int) -> bool:
    # To be had only where nobody shares the lock, and so nobody uses the folder.
    alone = _take(lock, fcntl.LOCK_EX)
    if alone:
        shutil.rmtree(run, ignore_errors=True)
    return alone


def _open(run: Path, new: int = 0) -> int:
    return os.open(run / "lock", os.O_RDWR | new | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _take(lock: int, kind: int) -> bool:
    """Whether the lock could be had; where files can't be locked, everybody may share."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return kind == fcntl.LOCK_SH
    return True


def _is_at(run: Path, lock: int) -> bool:
    """Whether the lock that we hold is still the folder's."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), os.stat(run / "lock"))
    return False
