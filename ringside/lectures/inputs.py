"""What a lecture's outputs depend on, and one hash of it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

from ringside.lectures.lecture import Lecture

# What a notebook, a zygote and a rank load; the outputs depend on these and what they import.
ENTRANCES = (
    "ringside",
    "ringside.draw",
    "ringside.lectures.exhibits",
    "ringside.lectures.explore",
    "ringside.mpi",
    "ringside.rank",
    "ringside.zygote",
)


def inputs(lecture: Lecture) -> Iterator[Path]:
    """Yield the files that a lecture's outputs depend on, in a fixed order."""
    yield lecture.source
    yield from sorted(
        path for path in (lecture.source.parent / "data").rglob("*") if path.is_file()
    )
    yield from sorted(loaded(lecture.tree))
    yield from sorted((lecture.tree / "cluster" / "machines").glob("*.toml"))


def loaded(tree: Path) -> set[Path]:
    """Return the kit's modules that are reached from ENTRANCES by following imports."""
    found: set[Path] = set()
    names = list(ENTRANCES)
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
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def digest(lecture: Lecture) -> dict[str, str]:
    """Return the hash of the text, and of everything else that the outputs depend on."""
    around = hashlib.sha256()
    text = hashlib.sha256(lecture.source.read_bytes()).hexdigest()
    for path in inputs(lecture):
        if path != lecture.source:
            place = path.relative_to(lecture.tree).as_posix()
            around.update(f"{place} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return {"text": text, "kit_and_data": around.hexdigest()}
