"""What ranks import is compiled once, by whoever starts them: ranks may not write Python's cache.

Without it each of 64 ranks compiles the same files again, 4 % of a short run. The cached bytes
carry the hash of their source, which every import checks, so a file that has changed since is
compiled by the rank as ever: a time stamp would miss a second change within the same second.
"""

from __future__ import annotations

import contextlib
import importlib.util
import py_compile
import re
import struct
import sys
import warnings
from pathlib import Path

_CHECKED_HASH = py_compile.PycInvalidationMode.CHECKED_HASH
_HASHED = struct.pack("<I", 0b11)  # PEP 552: by hash, to be checked
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w \t,]+)", re.MULTILINE)
_NAME = re.compile(rb"\w+")


def keep_compiled(path: Path) -> None:
    """Put a file, and the files beside it that it imports, into Python's cache.

    Nothing of them is run. What can't be compiled or written is left to the ranks, who say what is
    wrong with it.
    """
    if sys.dont_write_bytecode:
        return
    waiting, seen = [path], {path}
    while waiting:
        file = waiting.pop()
        with contextlib.suppress(OSError):
            source = file.read_bytes()
            _compile(file, source)
            names = {name for line in _IMPORT.findall(source) for name in _NAME.findall(line)}
            beside = {path.parent / f"{name.decode()}.py" for name in names} - seen
            waiting += beside
            seen |= beside


def _compile(file: Path, source: bytes) -> None:
    cached = Path(importlib.util.cache_from_source(str(file)))
    head = importlib.util.MAGIC_NUMBER + _HASHED + importlib.util.source_hash(source)
    with contextlib.suppress(OSError), cached.open("rb") as there:
        if there.read(len(head)) == head:
            return
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning is for the output of the rank that imports it
        py_compile.compile(str(file), quiet=2, invalidation_mode=_CHECKED_HASH)
