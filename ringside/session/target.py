"""What a run is of: a file in a folder, a function of it, and the front end that it speaks."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ringside.errors import TargetError

KITS_OWN = "ringside.checking."  # modules of ours that call a student's function inside a rank
_MOST_FILES = 200  # that are looked into for an import


@dataclass(frozen=True)
class Target:
    """What to run: a file in a folder, and a function of it (None: the file as a script).

    A ``module`` is run as ``python -m`` runs it; the file is its text.
    """

    folder: Path
    file: str
    function: str | None
    module: str = ""

    @classmethod
    def parse(cls, target: str | Callable[..., Any], folder: Path | None = None) -> Target:
        """Read ``"ring.py:all_reduce"``, ``"ring:all_reduce"``, ``"script.py"`` or a function.

        Raises:
            TargetError: no such file, or a function that lives in a notebook or another function.
        """
        if callable(target):
            return cls._of_function(target)
        name, _, function = str(target).partition(":")
        if folder is not None and function and name.startswith(KITS_OWN):
            return cls(folder, name, function)
        path = Path(name)
        if folder is not None and not path.is_absolute():
            path = folder / path
        # A program may have any name, a module ends in .py.
        if not name.endswith(".py") and (function or not path.is_file()):
            path = path.with_name(f"{path.name}.py")
        path = path.resolve() if folder is None else path
        if not path.is_file():
            raise TargetError(
                f"there is no file {path}: write it first, for instance with %%module."
            )
        if function and not function.isidentifier():
            raise TargetError(f"{function!r} is no function's name; write FILE:FUNCTION.")
        if folder is not None and path.is_relative_to(folder):
            return cls(folder, str(path.relative_to(folder)), function or None)
        above = path.parent
        # A module of a package is imported from above it; a script stands alone, wherever it lies.
        while function and (above / "__init__.py").is_file():
            above = above.parent
        return cls(above, path.relative_to(above).as_posix(), function or None)

    @classmethod
    def of_module(cls, name: str) -> Target:
        """What ``python -m NAME`` would run in this folder.

        Raises:
            TargetError: there is no such module, or it starts ranks itself.
        """
        if name in ("torch.distributed.run", "torch.distributed.launch", "mpi4py"):
            raise TargetError(
                f"-m {name} starts a program's ranks, and so does `ringside run`: name the program "
                "itself, `ringside run train.py --ranks 4`."
            )
        folder = Path.cwd().resolve()
        path = folder.joinpath(*name.split("."))
        for file in (path.with_name(f"{path.name}.py"), path / "__main__.py"):
            if file.is_file():
                return cls(folder, file.relative_to(folder).as_posix(), None, name)
        raise TargetError(
            f"-m {name}: neither {name.replace('.', '/')}.py nor {name.replace('.', '/')}"
            f"/__main__.py is in {folder}."
        )

    @classmethod
    def _of_function(cls, function: Callable[..., Any]) -> Target:
        code = getattr(function, "__code__", None)
        module = sys.modules.get(getattr(function, "__module__", ""), None)
        file = code.co_filename if code is not None else getattr(module, "__file__", None)
        name = getattr(function, "__qualname__", "")
        in_file = file is not None and Path(file).is_file()  # a notebook's cells are no files
        if not in_file or not name.isidentifier():
            where = "another function" if in_file else "a notebook or an interactive session"
            raise TargetError(
                f"{name or function!r} was defined in {where}, and ranks are fresh processes "
                "that don't have it. Put it in a file with %%module and name it as "
                "FILE:FUNCTION, or run a cell on ranks with %%ranks."
            )
        path = Path(str(file)).resolve()
        return cls(path.parent, path.name, name)


def front_end_of(where: Target) -> str:
    """``"torch"`` if the file imports torch, or is named so, and the function takes no ``comm``.

    The texts of the file, and of what it imports from its own folder, are looked at; nothing of
    them is run. Of a module of the kit's own its name tells.
    """
    if where.file.startswith(KITS_OWN):
        return "torch" if where.file.endswith("_torch") else "mpi"
    file = where.folder / where.file
    if where.function is not None and file.is_file():
        takes_comm = rb"^def[ \t]+" + where.function.encode() + rb"[ \t]*\(\s*comm\b"
        if re.search(takes_comm, file.read_bytes(), re.MULTILINE):
            return "mpi"
    return "torch" if file.name.endswith("_torch.py") or _imports_torch(file) else "mpi"


def _imports_torch(program: Path) -> bool:
    """Whether a file, or one of its folder that it imports, imports torch."""
    waiting, seen = [program], {program}
    while waiting and len(seen) <= _MOST_FILES:
        path = waiting.pop()
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):  # the ranks say what is wrong with it
            continue
        for name in _imported(tree):
            if name.partition(".")[0] == "torch":
                return True
            # A relative name is looked for beside its file, any other one beside the program.
            above = path.parent if name.startswith(".") else program.parent
            place = above.joinpath(*name.strip(".").split("."))
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file not in seen and file.is_file():
                    seen.add(file)
                    waiting.append(file)
    return False


def _imported(tree: ast.AST) -> Iterator[str]:
    """Names of modules that a file imports; a relative one begins with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * min(node.level, 1) + (node.module or "")
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)
