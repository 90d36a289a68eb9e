"""What a lecture's outputs depend on, and one hash of it.

Of the kit that is the code that the lecture's notebook, its zygote and its ranks load, found by
following imports from the lecture's text on. What is said about the code does not count: a comment
or a docstring may change, and no lecture is stale.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from ringside.course.lectures.lecture import Lecture

# What a notebook, a zygote and a rank load; the outputs depend on these and what they import.
ENTRANCES = (
    "ringside",
    "ringside.draw",
    "ringside.course.lectures.exhibits",
    "ringside.course.lectures.explore",
    "ringside.mpi",
    "ringside.ranks.rank",
    "ringside.ranks.zygote",
)
TORCH = "ringside.pytorch.preload"  # where the text imports torch, also in a file that it writes
_TORCH = re.compile(r"^[# ]*(?:import|from) torch\b", re.MULTILINE)
_NAMED = re.compile(r"\bringside(?:\.\w+)+")
_FROM = re.compile(r"\bfrom (ringside[.\w]*) import ([\w, ]+)")


def inputs(lecture: Lecture) -> Iterator[Path]:
    """Yield the files that a lecture's outputs depend on, in a fixed order."""
    yield lecture.source
    yield from sorted(
        path for path in (lecture.source.parent / "data").rglob("*") if path.is_file()
    )
    modules = loaded(lecture.tree, named(lecture.source.read_text(encoding="utf-8")))
    yield from sorted(modules)
    yield from sorted((lecture.tree / "cluster" / "machines").glob("*.toml"))
    if lecture.tree / "ringside" / "course" / "validation" / "row.py" in modules:
        yield from sorted((lecture.tree / "cluster" / "validation").glob("*.toml"))


def named(text: str) -> Iterator[str]:
    """Yield the names in a lecture's text that may be modules of the kit, magics included."""
    for name in _NAMED.findall(text):
        yield from _with_packages(name)
    for module, names in _FROM.findall(text):
        yield module
        yield from (f"{module}.{name.strip()}" for name in names.split(","))
    if _TORCH.search(text):
        yield TORCH


def _with_packages(name: str) -> Iterator[str]:
    """Yield a dotted name and the packages that Python imports on the way to it."""
    parts = name.split(".")
    yield from (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))


def loaded(tree: Path, more: Iterable[str] = ()) -> set[Path]:
    """Return the kit's modules reached from ENTRANCES and ``more`` by following imports."""
    found: set[Path] = set()
    names = [*ENTRANCES, *more]
    while names:
        path = module_file(tree, names.pop())
        if path is not None and path not in found:
            found.add(path)
            names += imported(path)
    return found


def module_file(tree: Path, name: str) -> Path | None:
    """Return a module's file in the tree, None if there is none."""
    place = tree.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def imported(path: Path) -> Iterator[str]:
    """Yield the names that a module imports and that may be modules of the kit."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _with_packages(one.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from _with_packages(node.module)
            yield from (f"{node.module}.{one.name}" for one in node.names)


def content(path: Path) -> bytes:
    """What is hashed of a file: all of it, or a module's code without what is said about it."""
    if path.suffix != ".py":
        return path.read_bytes()
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            said = node.body[0]
            for number in range(said.lineno, (said.end_lineno or said.lineno) + 1):
                lines[number - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip()).encode()


def digest(lecture: Lecture) -> dict[str, str]:
    """Return the hash of the text, and of everything else that the outputs depend on."""
    around = hashlib.sha256()
    text = hashlib.sha256(lecture.source.read_bytes()).hexdigest()
    for path in inputs(lecture):
        if path != lecture.source:
            place = path.relative_to(lecture.tree).as_posix()
            around.update(f"{place} {hashlib.sha256(content(path)).hexdigest()}\n".encode())
    return {"text": text, "kit_and_data": around.hexdigest()}
