"""A student's archive, unpacked within caps; run by itself, in a process that may die of it.

    python -I -S zip_archive.py < {"archive": ..., "folder": ..., "caps": {...}}
    ready
    {"written": [...]} or {"refused": "a sentence"} or {"errno": 28, "path": ...}

A member names the memory that it wants to be unpacked with (LZMA: up to 4 GiB) and hides how long
that takes, and the libraries that do it are written in C. So the grader does none of it itself.
This file imports the standard library alone, and starts in 30 ms.
"""

from __future__ import annotations

import errno
import json
import lzma
import os
import resource
import stat
import struct
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MIB = 1 << 20
READY = b"ready\n"
# What every packer asks for at most, and some more: `xz -9` wants 64 MiB, 7-Zip's Ultra as much.
MEMORY_BYTES = 256 * MIB
# Unpacking 64 MiB, the most that is taken, costs 3 s in bzip2, and 1 s otherwise.
CPU_S = 30

# What reading a damaged archive can raise: zipfile promises only the first.
DAMAGED = (
    zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, ValueError, OverflowError,
    struct.error, zlib.error, lzma.LZMAError,
)  # fmt: skip
# The machine's faults, not the archive's.
OURS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE}


class Refused(Exception):
    """An archive that will not be unpacked; the message is for its author."""


@dataclass(frozen=True)
class Caps:
    """How much an archive may hold."""

    zip_bytes: int
    files: int
    depth: int
    total_bytes: int
    ratio: int


def extract(archive: Path, folder: Path, caps: Caps) -> list[str]:
    """Unpack `archive` into `folder`; gives the names written.

    One folder around everything, as many tools make it, is taken off.

    Raises:
        Refused: it is damaged, encrypted, too large, or names a path outside.
        OSError: the machine can't write it.
    """
    number_of_members(archive, caps)
    try:
        with zipfile.ZipFile(archive) as source:
            members = _members(source, caps)
            return _write_members(source, members, folder, caps)
    except DAMAGED as error:
        raise Refused(f"{archive.name} is damaged: {error}.") from error
    except MemoryError as error:
        raise Refused(
            f"{archive.name} needs more than {MEMORY_BYTES // MIB} MiB of memory to be unpacked: "
            "pack it again, as a plain zip."
        ) from error
    except OSError as error:
        if error.errno in OURS:
            raise
        raise Refused(f"{archive.name} can't be unpacked: {error}.") from error


def number_of_members(archive: Path, caps: Caps) -> int:
    """The number of members by the archive's last record, read before anything is parsed."""
    status = os.lstat(archive)
    if not stat.S_ISREG(status.st_mode) or status.st_size > caps.zip_bytes:
        raise Refused(f"{archive.name} is no regular file of at most {caps.zip_bytes // MIB} MiB.")
    return directory_size(archive, most=2 * caps.files, told=caps.files)


def directory_size(
    archive: Path, *, most: int, told: int | None = None, max_bytes: int = MIB
) -> int:
    """As `number_of_members`, with at most so many, listed in so many bytes.

    `zipfile` makes an object for every entry on opening: a small file can name millions.
    """
    with archive.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        # The last record, 22 bytes and a comment of up to 65,535; before it zip64's two, 56 and 20.
        stream.seek(max(0, size - (76 + 22 + 0xFFFF)))
        tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + 22:
        raise Refused(f"{archive.name} is not a zip archive.")
    count, size = struct.unpack("<HI", tail[at + 10 : at + 16])
    if at >= 76 and tail[at - 20 : at - 16] == b"PK\x06\x07":  # zip64: `zipfile` believes these
        count, size = struct.unpack("<2Q", tail[at - 44 : at - 28])
    if count > most or size > max_bytes:
        raise Refused(f"{archive.name} holds more than {told or most} files.")
    return int(count)


def _members(source: zipfile.ZipFile, caps: Caps) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for info in source.infolist():
        # Archives of Windows may hold backslashes, and a colon names a drive or a stream there.
        path = PurePosixPath(info.filename.replace("\\", "/"))
        kind = stat.S_IFMT(info.external_attr >> 16)
        if path.is_absolute() or ".." in path.parts or ":" in info.filename or not path.parts:
            raise Refused(f"The archive names a path outside of itself: {info.filename!r}.")
        if info.is_dir() or path.parts[0] == "__MACOSX" or path.name == ".DS_Store":
            continue
        if kind not in (0, stat.S_IFREG):
            raise Refused(f"{info.filename!r} in the archive is not a regular file.")
        if info.flag_bits & 0x1:
            raise Refused("The archive is encrypted.")
        if str(path) in members:
            raise Refused(f"{info.filename!r} is in the archive twice.")
        total += info.file_size
        if len(members) >= caps.files or total > caps.total_bytes:
            raise Refused(
                f"The archive holds more than {caps.files} files or {caps.total_bytes // MIB} MiB."
            )
        # Small files may well be packed so: only a large one can be a bomb.
        if info.file_size > MIB and info.file_size > caps.ratio * max(1, info.compress_size):
            raise Refused(f"{info.filename!r} is packed more than {caps.ratio} times.")
        members[str(path)] = info
    tops = {PurePosixPath(name).parts[0] for name in members}
    if len(tops) == 1 and all("/" in name for name in members):
        members = {name.split("/", 1)[1]: info for name, info in members.items()}
    if any(len(PurePosixPath(name).parts) > caps.depth for name in members):
        raise Refused(f"The archive nests deeper than {caps.depth} folders.")
    return members


def _write_members(
    source: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], folder: Path, caps: Caps
) -> list[str]:
    rest_bytes = caps.total_bytes
    for name, info in members.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with source.open(info) as stream, target.open("xb") as output:
            # The declared size is the archive's word; what comes out is counted.
            while block := stream.read(min(MIB, rest_bytes + 1)):
                rest_bytes -= len(block)
                if rest_bytes < 0:
                    raise Refused(
                        f"The archive unpacks to more than {caps.total_bytes // MIB} MiB."
                    )
                output.write(block)
    return sorted(members)


def _bound(caps: Caps) -> None:
    """Take away what unpacking doesn't need, of this process alone."""
    # RLIMIT_AS counts what the interpreter has mapped, too, so that comes on top.
    used_bytes = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_AS, used_bytes + MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_FSIZE, caps.total_bytes + MIB),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        fits = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (fits, hard))


def _serve() -> None:
    request = json.load(sys.stdin)
    caps = Caps(**request["caps"])
    # Before READY: from there on what ends this process is the archive's fault.
    _bound(caps)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    archive, folder = (Path(os.fsdecode(bytes.fromhex(request[n]))) for n in ("archive", "folder"))
    answer: dict[str, object]
    try:
        answer = {"written": extract(archive, folder, caps)}
    except Refused as refused:
        answer = {"refused": str(refused)}
    except OSError as error:
        answer = {"errno": error.errno, "path": str(error.filename or folder)}
    print(json.dumps(answer))


if __name__ == "__main__":
    _serve()
