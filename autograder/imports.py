"""What a module imports, and why Python can't read it."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Mapping

# CPython 3.11's parser may fail in one thread while another one parses (SystemError: "recursion
# depth mismatch"), so it is asked by one thread at a time.
_parsing = threading.Lock()
_IMPORT = re.compile(r"^[ \t]*(?:from|import)\b[^\n]*", re.MULTILINE)


def parsed(source: str | bytes) -> ast.Module:
    """The syntax tree of a text, read by one thread at a time.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: Python can't read it.
    """
    with _parsing:
        return ast.parse(source)


def imported(module: str, modules: Mapping[str, str]) -> dict[str, str]:
    """`module` and those of its author's modules that it imports, directly or through others.

    Only these are put beside it, so that its result depends on nothing else.
    """
    queue, sources = [module], dict[str, str]()
    while queue:
        name = queue.pop()
        if name in sources or name not in modules:
            continue
        sources[name] = modules[name]
        words = set(re.findall(r"\w+", " ".join(_IMPORT.findall(modules[name]))))
        queue += sorted(words & modules.keys())
    return sources


def imports_package(source: bytes, package: str) -> bool:
    """Whether a module's text has an import statement for a package or a part of it."""
    try:
        statements = list(ast.walk(parsed(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # then it imports nothing at all
        return False
    names = [
        alias.name for node in statements if isinstance(node, ast.Import) for alias in node.names
    ]
    names += [node.module or "" for node in statements if isinstance(node, ast.ImportFrom)]
    return any(name.partition(".")[0] == package for name in names)


def syntax_error(source: str) -> str:
    """Why Python can't read a module, in its words; empty if it can."""
    try:
        parsed(source)
    except SyntaxError as error:
        return error.msg
    except (ValueError, RecursionError, MemoryError):
        pass
    return ""
