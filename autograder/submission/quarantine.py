"""The first thing that touches a submission: regular files only, counted and size-capped.

Nothing here parses what a student wrote. `inspect` looks with lstat and follows no link;
`read_regular` opens without following links or waiting on pipes; `extract_zip` reads the
archive's own directory first, within caps, and writes every path itself.
"""

from __future__ import annotations

import errno
import lzma
import os
import stat
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from autograder.course.limits import Limits
from ringside import output_folder

MIB = 1 << 20


KIT = Limits()


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
    found = Inspection()
    try:
        _walk(folder, "", 0, found, limits)
    except PermissionError as error:
        raise Rejected(f"{folder.name} can't be listed: {error.strerror}.") from error
    return found


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
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise Rejected(f"{path.name} can't be read: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Rejected(f"{path.name} is not a regular file.")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
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


# What reading a damaged archive can raise: zipfile promises only the first.
DAMAGED = (
    zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, ValueError, OverflowError,
    struct.error, zlib.error, lzma.LZMAError,
)  # fmt: skip
# The machine's faults, not the archive's.
OURS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}


def extract_zip(archive: Path, folder: Path, limits: Limits = KIT) -> list[str]:
    """Unpack `archive` into `folder`; gives the names written.

    One folder around everything, as many tools make it, is taken off.

    Raises:
        Rejected: it is damaged, encrypted, too large, or names a path outside.
    """
    read_directory_size(archive, limits)
    try:
        with zipfile.ZipFile(archive) as source:
            members = _members(source, limits)
            return _write_members(source, members, folder, limits)
    except Rejected:
        raise
    except DAMAGED as error:
        raise Rejected(f"{archive.name} is damaged: {error}.") from error
    except OSError as error:
        if error.errno in OURS:
            raise
        raise Rejected(f"{archive.name} can't be unpacked: {error}.") from error


def read_directory_size(archive: Path, limits: Limits = KIT) -> int:
    """The number of members by the archive's last record, read before anything is parsed."""
    status = os.lstat(archive)
    if not stat.S_ISREG(status.st_mode) or status.st_size > limits.zip_bytes:
        raise Rejected(
            f"{archive.name} is no regular file of at most {limits.zip_bytes // MIB} MiB."
        )
    return directory_size(archive, most=2 * limits.submission_files, told=limits.submission_files)


def directory_size(
    archive: Path, *, most: int, told: int | None = None, max_bytes: int = MIB
) -> int:
    """As `read_directory_size`, with at most so many members, listed in so many bytes.

    `zipfile` makes an object for every entry on opening: a small file can name millions.
    """
    with archive.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - (76 + 22 + 0xFFFF)))
        tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise Rejected(f"{archive.name} is not a zip archive.")
    count, size = struct.unpack("<HI", tail[at + 10 : at + 16])
    if at >= 76 and tail[at - 20 : at - 16] == b"PK\x06\x07":  # zip64: `zipfile` believes these
        count, size = struct.unpack("<2Q", tail[at - 44 : at - 28])
    if count > most or size > max_bytes:
        raise Rejected(f"{archive.name} holds more than {told or most} files.")
    return int(count)


def _members(source: zipfile.ZipFile, limits: Limits) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for info in source.infolist():
        path = PurePosixPath(info.filename.replace("\\", "/"))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if path.is_absolute() or ".." in path.parts or ":" in info.filename or not path.parts:
            raise Rejected(f"The archive names a path outside of itself: {info.filename!r}.")
        if info.is_dir() or path.parts[0] == "__MACOSX" or path.name == ".DS_Store":
            continue
        if kind not in (0, stat.S_IFREG):
            raise Rejected(f"{info.filename!r} in the archive is not a regular file.")
        if info.flag_bits & 0x1:
            raise Rejected("The archive is encrypted.")
        if str(path) in members:
            raise Rejected(f"{info.filename!r} is in the archive twice.")
        total += info.file_size
        if len(members) >= limits.submission_files or total > limits.submission_bytes:
            raise Rejected(
                f"The archive holds more than {limits.submission_files} files or "
                f"{limits.submission_bytes // MIB} MiB."
            )
        if info.file_size > MIB and info.file_size > limits.zip_ratio * max(1, info.compress_size):
            raise Rejected(f"{info.filename!r} is packed more than {limits.zip_ratio} times.")
        members[str(path)] = info
    tops = {PurePosixPath(name).parts[0] for name in members}
    if len(tops) == 1 and all("/" in name for name in members):
        members = {name.split("/", 1)[1]: info for name, info in members.items()}
    if any(len(PurePosixPath(name).parts) > limits.submission_depth for name in members):
        raise Rejected(f"The archive nests deeper than {limits.submission_depth} folders.")
    return members


def _write_members(
    source: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], folder: Path, limits: Limits
) -> list[str]:
    left = limits.submission_bytes
    for name, info in members.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open(info) as stream, target.open("xb") as output:
            # The declared size is the archive's word; what comes out is counted.
            while block := stream.read(min(MIB, left + 1)):
                left -= len(block)
                if left < 0:
                    raise Rejected(
                        f"The archive unpacks to more than {limits.submission_bytes // MIB} MiB."
                    )
                output.write(block)
    return sorted(members)
