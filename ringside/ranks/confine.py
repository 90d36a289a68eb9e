"""What a rank may do: compute, read its libraries, and talk over the one counted connection.

Ranks of one machine are not isolated by themselves: the same user's processes read each other's
memory, signal each other, and meet in files, sockets and shared memory. ``confine`` is called in
every rank before student code, wherever the rank runs. A sandbox wraps it, and never replaces it.

    descriptors   all but the given ones closed; standard input is a private /dev/null
    process       not dumpable, no new privileges, no capabilities, dies with its parent
    mounts        strict: no /proc, which tells of other processes even to those who can't read
                  it (``stat`` of a folder counts descriptors and threads), and all read-only, so
                  that no file's time of access changes
    Landlock      reads: interpreter, libraries, the given folders; writes: its own scratch
    seccomp       the system calls that are listed in ``ringside.ranks.seccomp``: no processes,
                  sockets, shared memory, or signals to others

What stays open are the side channels of shared hardware: load, caches and disk are felt by all.
docs/architecture.md says how wide that of load is.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import struct
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringside import kit
from ringside.ranks import landlock, seccomp

__all__ = [
    "ConfineError",
    "ConfineReport",
    "confine",
    "file_rules",
    "harden_zygote",
    "interpreter_paths",
    "limit_resources",
    "stay_with_parent",
]

_PR_SET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 3, 4, 38
_SIGKILL = 9
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000  # the same on every architecture
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522
_LINUX = sys.platform.startswith("linux")

# Parts of an installation prefix that Python needs; a prefix may hold a course as well.
_PREFIX_PARTS = ("bin", "lib", "lib64", "include", "pyvenv.cfg")
_SYSTEM_PARTS = (
    "/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64", "/usr/share/zoneinfo",
)  # fmt: skip
_SYSTEM_FILES = (
    "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom", "/dev/zero",
)  # fmt: skip
# Top folders that an unstrict rank may not read: other processes and the kernel.
_NEVER_READ = {"proc", "sys"}


class ConfineError(OSError):
    """A rank that must be confined could not be."""


@dataclass(frozen=True)
class ConfineReport:
    """What holds in a confined process.

    Attributes:
        platform: ``sys.platform``.
        landlock_abi: version of Landlock in force; 0 for none.
        seccomp: whether the system call filter is in force.
        missing: in words, what this machine could not give; empty when all holds.
    """

    platform: str
    landlock_abi: int
    seccomp: bool
    missing: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        if self.complete:
            return f"confined (Landlock {self.landlock_abi}, seccomp)"
        return "not fully confined: " + "; ".join(self.missing)


def confine(
    scratch: Path | None,
    *,
    strict: bool = True,
    read: Sequence[Path] | None = None,
    keep_fds: Iterable[int] | None = None,
    threads: bool = True,
    rules: landlock.Rules | None = None,
) -> ConfineReport:
    """Take from this process, for good, all that a rank doesn't need.

    Call it in a forked rank that has one thread, before student code. A refused call raises
    ``PermissionError`` in the student's code; writing a file is one of them.

    Args:
        scratch: the one folder that may be written, of which no other rank may know the name;
            None for no folder.
        strict: for grading. Reads are restricted to the interpreter, its libraries, this package
            and ``read``, and a kernel that can't filter system calls is an error. Otherwise
            any file may be read except of /proc and /sys, and the report says what is missing.
        read: folders and files that may be read besides, such as the modules' folder; None for
            the first entry of ``sys.path``, where a rank has it, unless that is the kit's root.
        keep_fds: descriptors to keep, besides 1 and 2; all others are closed, and 0 becomes
            /dev/null. None keeps all; then the caller must see to it that no file description
            is shared with another rank.
        threads: whether threads may be started.
        rules: what ``file_rules`` made for ``strict`` and ``read``, where many processes get the
            same; then there is no scratch folder.

    Returns:
        What holds; on other systems than Linux nothing but the descriptors does.

    Raises:
        ConfineError: strict, on Linux, and the kernel refuses what can't be done without.
    """
    if keep_fds is not None:
        _close_descriptors_except(keep_fds)
    if not _LINUX:
        open_here = ("memory of other ranks", "files", "sockets", "signals", "processes")
        missing = tuple(f"{what}: not isolated on {sys.platform}" for what in open_here)
        return ConfineReport(sys.platform, 0, False, missing)
    missing_here: list[str] = []
    if strict:
        # Before the rights and the system calls that it needs are given up below.
        missing_here += _take_proc_away(read_only=scratch is None)
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
    # Landlock and the filter both ask for it, of whoever isn't root.
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities()
    _prctl(_PR_SET_DUMPABLE, 0)
    _leave_room_for_forks()
    # Landlock first: the filter refuses what it takes to set it up.
    try:
        if rules is None:
            rules = file_rules(strict, _modules_folder() if read is None else read, scratch)
            version = landlock.enforce(rules)
            if rules.abi:
                os.close(rules.descriptor)
        else:
            version = landlock.enforce(rules)
    except OSError as error:
        version = 0
        missing_here.append(str(error))
    missing_here += _missing_from_landlock(version)
    filtered = True
    try:
        seccomp.install(pid=os.getpid(), threads=threads, file_changes=version > 0)
    except OSError as error:
        if strict:
            message = f"a rank can't be confined: {error.strerror}"
            raise ConfineError(error.errno, message) from error
        filtered = False
        missing_here.append(f"system calls are not filtered: {error.strerror}")
    return ConfineReport(sys.platform, version, filtered, tuple(missing_here))


def stay_with_parent() -> None:
    """What an unconfined rank needs: it ends with the zygote, and may look at itself in /proc."""
    if _LINUX:
        _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        _prctl(_PR_SET_DUMPABLE, 1)


def file_rules(strict: bool, read: Sequence[Path], scratch: Path | None = None) -> landlock.Rules:
    """Which files a confined process may touch; see ``confine``.

    Raises:
        OSError: the kernel has Landlock but refuses these rules.
    """
    return landlock.prepare(
        read=_readable(strict, read),
        # Importing lists it. Its files, such as solutions beside the kit, are not to be read.
        listing=[kit.ROOT],
        write=[_NULL, *([scratch] if scratch else [])],
    )


def harden_zygote() -> None:
    """Close the process that forks ranks against them: they are of the same user.

    Its memory could be written by any rank through /proc, and whoever owns it owns all later
    ranks. Memory that it shares would be shared by all of them.

    Raises:
        ConfineError: it holds writable shared memory, which ranks would inherit.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not _LINUX:
        return
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    with contextlib.suppress(OSError):  # every rank's filter, made once
        seccomp.prepare(os.uname().machine, True, landlock.abi() > 0)
    shared = _writable_shared_memory()
    _prctl(_PR_SET_DUMPABLE, 0)
    if shared:
        raise ConfineError(1, f"the zygote shares memory with its ranks: {shared[0]}")


def limit_resources(
    *,
    cpu_s: int | None = None,
    memory_bytes: int | None = None,
    nproc: int | None = None,
    fsize: int | None = None,
    nofile: int | None = None,
) -> None:
    """Set hard limits for this process and all that it starts; None leaves one as it is.

    A limit above the present hard limit is lowered to that. ``nproc`` counts all processes and
    threads of the user, and does not bind root. ``memory_bytes`` is address space.
    """
    limits = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_NPROC: nproc,
        resource.RLIMIT_FSIZE: fsize,
        resource.RLIMIT_NOFILE: nofile,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in limits.items():
        if value is None:
            continue
        hard = resource.getrlimit(limit)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(limit, (value, value))


def interpreter_paths() -> list[Path]:
    """Files and folders that this Python needs to run, and nothing else of its prefixes."""
    paths: list[Path] = []
    for prefix in dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix)):
        if Path(prefix) not in (Path("/usr"), Path("/")):
            paths += [Path(prefix) / part for part in _PREFIX_PARTS]
    paths += [Path(path) for path in sysconfig.get_paths().values()]
    paths += [Path(path) for path in _SYSTEM_PARTS]
    return _outermost(path for path in paths if path.exists())


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that lie in none of the others."""
    roots: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in roots):
            roots.append(path)
    return roots


def _readable(strict: bool, extra: Sequence[Path]) -> list[Path]:
    if strict:
        return [*_STRICT_READ, *extra]
    top = [Path("/") / name for name in os.listdir("/") if name not in _NEVER_READ]
    return [*top, *extra]


def _modules_folder() -> list[Path]:
    first = Path(sys.path[0])
    return [] if first == kit.ROOT else [first]


def _missing_from_landlock(version: int) -> list[str]:
    if version == 0:
        return ["this kernel has no Landlock: reading is not restricted"]
    missing = []
    if version < 3:
        missing.append(f"Landlock {version} does not know truncation")
    # Sockets and signals are refused by the filter too, so older versions lack nothing else.
    return missing


def _take_proc_away(*, read_only: bool) -> list[str]:
    """Cover /proc in mounts of this process's own; what remains visible, in words.

    Inside bubblewrap there is no /proc, and no right to cover it either. The rights that the new
    user namespace gives are dropped with all others.
    """
    if not os.path.exists("/proc/self"):
        return []
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
        return ["/proc can't be taken away: what it tells of other processes is visible"]
    flags = ctypes.c_ulong(_MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    if _libc.mount(b"tmpfs", b"/proc", b"tmpfs", flags, b"size=4k,mode=555") != 0:
        return ["/proc can't be covered: what it tells of other processes is visible"]
    attributes = struct.pack("=QQQQ", _MS_RDONLY, 0, 0, 0)  # struct mount_attr
    if read_only and _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, ctypes.c_size_t(32)
    ):
        return ["files can't be made read-only: their times of access are visible"]
    return []


def _close_descriptors_except(keep: Iterable[int]) -> None:
    descriptors = sorted({1, 2, *keep} - {0})
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0, inheritable=False)
    if null not in descriptors and null != 0:
        os.close(null)
    low = 1
    for descriptor in descriptors:
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, _highest_descriptor())


def _highest_descriptor() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 65536 if soft == resource.RLIM_INFINITY else int(soft)


def _writable_shared_memory() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # no /proc here, and so no way to look
        return []
    return [line for line in lines if line.split()[1] == "rw-s"]


def _leave_room_for_forks() -> None:
    """Half of the user's processes are for the zygote: a rank's threads must not use up all."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft // 2, soft // 2))


def _drop_capabilities() -> None:
    number = _CAPSET.get(os.uname().machine)
    if number is None:
        return
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if _libc.syscall(number, header, bytes(24)) != 0:
        code = ctypes.get_errno()
        raise ConfineError(code, f"capabilities can't be dropped: {os.strerror(code)}")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) != 0:
        code = ctypes.get_errno()
        raise ConfineError(code, f"prctl({option}, {value}): {os.strerror(code)}")


_libc = ctypes.CDLL(None, use_errno=True)
_NULL = Path(os.devnull)
_STRICT_READ = [*interpreter_paths(), *map(Path, _SYSTEM_FILES), kit.PACKAGE]
