"""Landlock by its raw system calls: which files this process, and all that it starts, may touch.

Each version ("ABI") of Landlock knows more rights; the ones that a kernel doesn't know are left
out, and the report of ``confine`` names what that leaves open::

    ABI 1  files: execute, write, read, list, remove, make     ABI 4  TCP: bind, connect
    ABI 2  rename and link across folders                      ABI 5  ioctl on devices
    ABI 3  truncate                                            ABI 6  abstract sockets, signals

Source: landlock(7) and Documentation/userspace-api/landlock.rst of the kernel.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

__all__ = ["Rules", "abi", "enforce", "prepare", "restrict"]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_READ = _READ_FILE | _READ_DIR
_WRITE = (
    _READ | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
)  # no links, sockets, pipes or devices
_FILE_ONLY = _READ_FILE | _WRITE_FILE | _TRUNCATE
_RIGHTS_BY_ABI = (0, 13, 14, 15, 15, 16, 16, 16)  # number of file rights that an ABI knows
_ALL_TCP, _ALL_SCOPES = 0b11, 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    answer = int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return max(answer, 0)


class Rules(NamedTuple):
    """Rules made ready in the kernel, for any number of processes to put on themselves."""

    descriptor: int  # -1: the kernel has no Landlock
    abi: int


def prepare(
    *, read: Iterable[Path], listing: Iterable[Path] = (), write: Iterable[Path] = ()
) -> Rules:
    """Make rules that refuse every file access but the given ones, TCP, and processes outside.

    Nothing may be executed, and a folder given stands for all beneath it.

    Args:
        read: files and folders that may be read.
        listing: folders that may be listed, their files not read.
        write: folders that may be written, and files such as ``/dev/null``.

    Returns:
        The rules, with the ABI used; 0 where the kernel has no Landlock.

    Raises:
        OSError: the kernel has Landlock but refuses these rules.
    """
    version = min(abi(), len(_RIGHTS_BY_ABI) - 1)
    if version == 0:
        return Rules(-1, 0)
    handled = (1 << _RIGHTS_BY_ABI[version]) - 1
    tcp = _ALL_TCP if version >= 4 else 0
    scopes = _ALL_SCOPES if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", handled, tcp, scopes)[:size]
    ruleset = _call(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0)
    try:
        for paths, rights in ((read, _READ), (listing, _READ_DIR), (write, _WRITE)):
            for path in paths:
                _add(ruleset, path, rights & handled)
    except BaseException:
        os.close(ruleset)
        raise
    return Rules(ruleset, version)


def enforce(rules: Rules) -> int:
    """Put rules on this process, for good, and return the ABI used.

    Needs ``no_new_privs``. Descriptors that are open already stay usable. Every call makes a
    domain of its own, so that processes under the same rules can't reach each other either.

    Raises:
        OSError: the kernel refuses.
    """
    if rules.abi:
        _call(_RESTRICT_SELF, rules.descriptor, 0)
    return rules.abi


def restrict(
    *, read: Iterable[Path], listing: Iterable[Path] = (), write: Iterable[Path] = ()
) -> int:
    """Make rules, put them on this process, and return the ABI used; 0 for no Landlock.

    Raises:
        OSError: the kernel has Landlock but refuses these rules.
    """
    rules = prepare(read=read, listing=listing, write=write)
    try:
        return enforce(rules)
    finally:
        if rules.abi:
            os.close(rules.descriptor)


def _add(ruleset: int, path: Path, rights: int) -> None:
    """Allow ``rights`` beneath ``path``; a path that isn't there needs no rule."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        if not os.path.isdir(path):
            rights &= _FILE_ONLY
        rule = struct.pack("=Qi", rights, descriptor)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    answer = int(_libc.syscall(number, *arguments))
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock refuses: {os.strerror(code)}")
    return answer
