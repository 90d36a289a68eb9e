"""The first thing that touches a submission: regular files only, counted and size-capped.

Nothing here parses what a student wrote. `inspect` looks with lstat and follows no link;
`read_regular` opens without following links or waiting on pipes; `extract_zip` has an archive
unpacked by a process that may die of it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from autograder.collect import zip_archive
from autograder.collect.zip_archive import MIB
from autograder.course.limits import Limits
from ringside import output_folder

KIT = Limits()
UNPACKING_S = 300  # only ends what sleeps, as on a file server that is gone


class Rejected(Exception):
    """A submission, or one of its files, that will not be read; the message is for its author."""


@dataclass
class Inspection:
    """What lies in a submission's folder."""

    files: dict[str, int] = field(default_factory=dict)  # path in the folder -> bytes
    refused: dict[str, str] = field(default_factory=dict)  # path in the folder -> why


def inspect(folder: Path, limits: Limits = KIT) -> Inspection:
    """List the regular files of `folder` that are within the limits, and what is refused.

    Raises:
        Rejected: `folder` is no folder, can't be listed, or holds more than any submission may.
    """
    if not stat.S_ISDIR(os.lstat(folder).st_mode):
        raise Rejected(f"{folder.name} is not a folder.")
    inspection = Inspection()
    try:
        _walk(folder, "", 0, inspection, limits)
    except PermissionError as error:
        raise Rejected(f"{folder.name} can't be listed: {error.strerror}.") from error
    return inspection


def _walk(folder: Path, prefix: str, depth: int, found: Inspection, limits: Limits) -> None:
    with os.scandir(folder) as entries:
        listed = []
        for entry in entries:
            listed.append(entry)
            if len(listed) > 4 * limits.submission_files:  # do not even list a folder of a million
                raise Rejected(f"The submission holds more than {limits.submission_files} files.")
    for entry in sorted(listed, key=lambda each: each.name):
        name = f"{prefix}{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if entry.name in ("__pycache__", ".ipynb_checkpoints", "__MACOSX"):
                continue
            if depth + 1 >= limits.submission_depth:
                found.refused[name] = f"is nested deeper than {limits.submission_depth} folders"
                continue
            try:
                _walk(Path(entry.path), f"{name}/", depth + 1, found, limits)
            except PermissionError:  # one folder must not stop the class
                found.refused[name] = "may not be listed"
            continue
        reason = _refusal(name, status, limits)
        if reason is not None:
            found.refused[name] = reason
            continue
        found.files[name] = status.st_size
        if len(found.files) > limits.submission_files:
            raise Rejected(f"The submission holds more than {limits.submission_files} files.")
        if sum(found.files.values()) > limits.submission_bytes:
            raise Rejected(f"The submission is larger than {limits.submission_bytes // MIB} MiB.")


def _refusal(name: str, status: os.stat_result, limits: Limits) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link; only regular files are read"
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    # Whoever may write beside it could have linked a file that only we may read.
    if status.st_nlink > 1:
        return "is a hard link to another file; only files of their own are read"
    cap = size_cap(name, limits)
    if status.st_size > cap:
        return f"is {status.st_size / MIB:.1f} MiB; at most {cap / MIB:g} MiB are read"
    return None


def size_cap(name: str, limits: Limits = KIT) -> int:
    """The most bytes that a file of this name may have."""
    suffix = PurePosixPath(name).suffix
    return {
        ".ipynb": limits.notebook_bytes,
        ".py": limits.module_bytes,
        ".zip": limits.zip_bytes,
    }.get(suffix, limits.submission_file_bytes)


def read_regular(path: Path, max_bytes: int | None = None, *, limits: Limits = KIT) -> bytes:
    """The bytes of `path`, if it is a regular file within its cap; links are not followed.

    Raises:
        Rejected: it is anything else.
    """
    cap = size_cap(path.name, limits) if max_bytes is None else max_bytes
    # Not blocking, since opening a pipe waits for a writer. What was opened is asked, not the name.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise Rejected(f"{path.name} can't be read: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Rejected(f"{path.name} is not a regular file.")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            # One byte more tells that it is too large; since it was listed it may have grown.
            content = stream.read(cap + 1)
    finally:
        os.close(descriptor)
    if len(content) > cap:
        raise Rejected(f"{path.name} is larger than {cap / MIB:g} MiB.")
    return content


def sweep(folder: Path, shelf: Path, limits: Limits = KIT) -> dict[str, str]:
    """Move what is refused from `folder` to `shelf`, so that nothing later can follow it.

    nbgrader copies every file of a submission, links followed. A folder that is refused as a
    whole (too many files, too large) is moved as a whole, and an empty one left in its place. What
    lies on the shelf since an earlier submission is kept: the whole shelf gets a number.
    """
    try:
        refused = inspect(folder, limits).refused
    except Rejected as rejected:
        refused = {".": str(rejected)}
    if refused and os.path.lexists(shelf):
        output_folder.set_aside(shelf)
    for name in refused:
        target = shelf / (folder.name if name == "." else name)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(folder if name == "." else folder / name, target)
    folder.mkdir(exist_ok=True)
    return refused


def extract_zip(archive: Path, folder: Path, limits: Limits = KIT) -> list[str]:
    """Unpack `archive` into `folder`, in a process of its own; gives the names written.

    One folder around everything, as many tools make it, is taken off. The process has its own
    memory and CPU time (see `zip_archive`); what ends it is the archive's fault, and ends nothing
    else.

    Raises:
        Rejected: it is damaged, encrypted, too large, names a path outside, or can't be unpacked
            within these bounds.
        OSError: the machine can't write it, or can't start the process.
    """
    request = {
        "archive": os.fsencode(archive).hex(),
        "folder": os.fsencode(folder).hex(),
        "caps": dataclasses.asdict(_caps(limits)),
    }
    command = [sys.executable, "-I", "-S", str(zip_archive.__file__)]
    try:
        ended = subprocess.run(
            command, input=json.dumps(request).encode(), capture_output=True, timeout=UNPACKING_S
        )
    except subprocess.TimeoutExpired:
        raise Rejected(f"{archive.name} was not unpacked within {UNPACKING_S} s.") from None
    # READY comes before the archive is opened: without it the fault can't be the archive's.
    if not ended.stdout.startswith(zip_archive.READY):
        message = ended.stderr[-300:].decode("utf-8", "replace").strip()
        raise OSError(f"The process that unpacks archives doesn't start: {message}")
    answer = _answer(archive, ended)
    if "errno" in answer:
        raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["path"])
    if "refused" in answer:
        raise Rejected(answer["refused"])
    return [str(name) for name in answer["written"]]


def _answer(archive: Path, ended: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """What the process said before it ended; how it died, where it said nothing."""
    if ended.returncode == 0:
        return dict(json.loads(ended.stdout.removeprefix(zip_archive.READY)))
    if ended.returncode == -signal.SIGXCPU:
        raise Rejected(
            f"{archive.name} takes more than {zip_archive.CPU_S} s of CPU time to be unpacked."
        )
    how = f"status {ended.returncode}"
    if ended.returncode < 0:
        how = f"signal {signal.Signals(-ended.returncode).name}"
    raise Rejected(f"{archive.name} can't be unpacked: the process that did it ended with {how}.")


def read_directory_size(archive: Path, limits: Limits = KIT) -> int:
    """The number of members by the archive's last record, read before anything is parsed."""
    try:
        return zip_archive.number_of_members(archive, _caps(limits))
    except zip_archive.Refused as refused:
        raise Rejected(str(refused)) from refused


def _caps(limits: Limits) -> zip_archive.Caps:
    return zip_archive.Caps(
        limits.zip_bytes,
        limits.submission_files,
        limits.submission_depth,
        limits.submission_bytes,
        limits.zip_ratio,
    )
