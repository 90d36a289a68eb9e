"""Graded results, stored under a hash of all that they depend on.

A module's result is a pure function of its source, its suite, the kit and the course's secret.
Of an assignment's files only those files count that the module's own test file
imports, directly or through others: a test that is mended changes the hash of one module.

A result is written whole by an atomic rename, so a grader that is killed at any moment and
started again loses nothing that was finished and repeats nothing.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from autograder import storage
from autograder.course import limits
from autograder.course.assignment import SUITE_POINTS
from autograder.course.course import Course

Result = dict[str, Any]

# What a grade depends on, of our own code; under the kit's root.
KIT_CODE = (
    "ringside",
    "autograder/course",
    "autograder/grade/real_ranks",
    "autograder/sandbox",
    "autograder/grade/suite",
    "autograder/grade/grading.py",
    "autograder/imports.py",
    "autograder/scratch.py",
)


def key(
    assignment: str,
    module: str,
    sources: Mapping[str, str],
    course: Course,
    *,
    trusted: bool = False,
) -> str:
    """The hash under which the result of `module` is stored; `sources` is all that it sees."""
    digest = hashlib.sha256()
    parts: list[bytes] = [
        assignment.encode(),
        module.encode(),
        course.secret().encode(),
        b"without a sandbox" if trusted else b"",
        kit_digest(course.kit, assignment, module).encode(),
        repr(limits.load(assignment, course)).encode(),
    ]
    for name in sorted(sources):
        parts += [name.encode(), sources[name].encode("utf-8", "surrogatepass")]
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


@functools.cache
def kit_digest(kit: Path, assignment: str, module: str) -> str:
    """A hash of a module's suite, what that imports, the machines and the code that grades."""
    roots = [kit / name for name in KIT_CODE]
    roots += [kit / "cluster" / "machines"]
    digest = hashlib.sha256()
    for path in sorted({*_files(roots), *suite_files(kit, assignment, module)}):
        content = path.read_bytes()
        name = path.relative_to(kit).as_posix().encode()
        digest.update(len(name).to_bytes(8, "big") + name)
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def suite_files(kit: Path, assignment: str, module: str) -> set[Path]:
    """The test file of a module, what it imports of ours, and the files supplied beside modules.

    Where a file's imports can't be told, by ``importlib`` or since it isn't Python, all files of
    the assignment count.
    """
    solutions = kit / "solutions" / assignment
    hidden = solutions / "hidden"
    everything = set(_files([hidden, *(p for p in solutions.glob("*") if p.is_file())]))
    waiting = [hidden / f"test_{module}.py"]
    waiting += sorted(hidden.glob("conftest.py"))
    supplied = [solutions / name for name in _supplied(solutions)]
    waiting += supplied
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if not path.is_file():
            return everything
        found.add(path)
        if path.suffix != ".py":
            continue
        imports = _imports(path)
        by_name = imports is None or any(name.split(".")[0] == "importlib" for name in imports)
        if by_name and path not in supplied:  # those look for the student's own modules
            return everything
        for name in imports or []:
            waiting += _ours(kit, path, name)
    return found


def _supplied(solutions: Path) -> list[str]:
    plan = solutions / "assignment.toml"
    if not plan.is_file():
        return []
    return [str(name) for name in tomllib.loads(plan.read_text("utf-8")).get("supplied", [])]


def _imports(path: Path) -> list[str] | None:
    """Dotted names that a file imports, in any place; None if it can't be read as Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names.append(base)
            names += [f"{base}{'' if base.endswith('.') else '.'}{a.name}" for a in node.names]
    return names


def _ours(kit: Path, importer: Path, name: str) -> Iterator[Path]:
    """The files behind an imported name that lie among suites and solutions, packages included."""
    stem = name.lstrip(".")
    if dots := len(name) - len(stem):
        base = importer.parents[dots - 1]
    elif stem.split(".")[0] in ("autograder", "solutions"):
        base = kit
    else:
        base = importer.parent  # a supplied file's neighbour; for a library nothing is there
    parts = stem.split(".") if stem else []
    for depth in range(len(parts) + 1):
        place = base.joinpath(*parts[:depth])
        for path in (place / "__init__.py", place.with_suffix(".py")):
            if path.is_file() and kit in path.parents:
                yield path


def _files(roots: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for root in roots:
        found += [root] if root.is_file() else root.rglob("*")
    kinds = (".py", ".toml", ".ini")
    return sorted(path for path in found if path.suffix in kinds and path.is_file())


def valid(result: object) -> bool:
    """Whether this is a module's result as ``pipeline`` makes it, with numbers that are scores."""
    if not isinstance(result, dict) or result.get("error"):
        return False
    tests = result.get("tests")
    if not isinstance(tests, list) or not _is_number(result.get("score"), SUITE_POINTS):
        return False
    return all(
        isinstance(test, dict)
        and isinstance(test.get("name"), str)
        and _is_number(test.get("points"), SUITE_POINTS)
        and _is_number(test.get("earned"), test["points"])
        for test in tests
    )


def _is_number(value: object, most: float) -> bool:
    real = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return real and -1e-9 <= value <= most + 1e-9  # type: ignore[operator]


class Store:
    """A folder of results, one JSON file each.

    Attributes:
        damaged: files that were no results when they were read; what they were about is graded
            again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: list[Path] = []

    def _path(self, name: str) -> Path:
        return self.folder / name[:2] / f"{name}.json"

    def get(self, name: str) -> Result | None:
        """The stored result, or None; a damaged file counts as none."""
        path = self._path(name)
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            content = None
        if valid(content):
            return dict(content)
        if path not in self.damaged:  # told once, however often it is looked for
            self.damaged.append(path)
        return None

    def when(self, name: str) -> float:
        """When the result was stored, in seconds of the epoch; 0 where there is none."""
        try:
            return self._path(name).stat().st_mtime
        except OSError:
            return 0.0

    def put(self, name: str, result: Result) -> None:
        """Store `result` so that no reader ever sees a part of it.

        Raises:
            StorageError: it can't be written.
        """
        if not valid(result):
            raise ValueError(f"no result of a module: {str(result)[:200]}")
        text = json.dumps(result, allow_nan=False)
        storage.write(self._path(name), text.encode(), mode=0o600)
