"""What ranks import is compiled once, by whoever starts them, and comes with their first call.

Left to themselves each of 64 ranks looks for the same files, reads them and compiles them. It is
for files of one's own only: nobody else's may be compiled outside a sandbox.
"""

from __future__ import annotations

import contextlib
import marshal
import re
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w \t,]+)", re.MULTILINE)
_NAME = re.compile(rb"\w+")


def compiled(folder: Path, file: str) -> dict[str, bytes]:
    """The code of a file, and of the modules of its folder that it imports, by path.

    Nothing of them is run. What can't be read or compiled is left to the ranks, who say what is
    wrong with it.
    """
    code: dict[str, bytes] = {}
    finder = FileFinder(
        str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourceFileLoader, SOURCE_SUFFIXES)
    )
    waiting, seen = [SourceFileLoader("", str(folder / file))], set[bytes]()
    while waiting:
        loader = waiting.pop()
        path = loader.get_filename()
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning is for the rank that imports it
            source = loader.get_data(path)
            code[path] = marshal.dumps(loader.source_to_code(source, path))
            names = {name for line in _IMPORT.findall(source) for name in _NAME.findall(line)}
            for name in names - seen:
                spec = finder.find_spec(name.decode())
                if spec is not None and not spec.parent and type(spec.loader) is SourceFileLoader:
                    waiting.append(spec.loader)
            seen |= names
    return code


known: dict[str, bytes] = {}  # code that has come to this process, by path, and is not in use yet


class Loader(SourceFileLoader):
    """Loads a module by its code, if that is known; once, for the file may change."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = known.pop(self.path, None)
        return marshal.loads(code) if code is not None else super().get_code(fullname)


class _Finder(MetaPathFinder):
    """Finds modules whose code is known in the first folder of Python's path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = f"{sys.path[0] if sys.path else ''}/{fullname}.py"
        if file not in known:
            return None
        return spec_from_file_location(fullname, file, loader=Loader(fullname, file))


def install() -> None:
    """Let this process import by code that is known, before it looks for files."""
    # Behind the finders of built-in and frozen modules, which come before any file.
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _Finder())
