"""Digests of what a grade depends on: the code of a run, and the files of a unit.

Code counts by its syntax, without comments and docstrings; a string that is no docstring may be a
message, and counts. So a comment regrades nobody, and neither does a page: of the kit, only files
count that run where a grade is made, and what they import.

    RUN, test_ring.py  --imports-->  ringside/checking/order.py  --imports-->  ringside/trace.py
       -> the syntax of each  ->  kit_digest

The syntax is spelled so that all Pythons that we support give the same digest.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from autograder.imports import parsed

__all__ = [
    "content_of", "files_below", "forget", "kit_digest", "run_files", "suite_files",
    "unit_digest",
]  # fmt: skip

# What runs where a grade is made, under the kit's root: all files of a folder, since many are
# started by name or imported by submissions. What these import is found, and isn't named here.
RUN = (
    "ringside/timing",
    "ringside/network",
    "ringside/scale",
    "ringside/pytorch",
    "ringside/mpi",
    "ringside/ranks",
    "ringside/session",
    "ringside/checking/announce.py",
    "autograder/sandbox",
    "autograder/grade/real_ranks",
    "autograder/grade/suite",
    "autograder/grade/grading.py",
)
# What these import and no grade depends on: pictures, a term's dates, and the course's secret,
# which is in a key by its value.
APART = (
    "ringside/draw",
    "ringside/course/term.py",
    "autograder/course/secret.py",
    "autograder/course/settings.py",
)
# It hands on names of everything; whoever uses one of a page's names imports the page itself.
FRONT = "ringside/__init__.py"
# Data that code reads where it runs.
READ = {
    "ringside/timing/machine.py": "cluster/machines",
    "ringside/checking/published.py": "cluster/validation",
}
_DATA = (".toml", ".ini")
# What an assignment.toml says to the map, to calendars and of containers; no grade depends on it.
_FACTS = ("handed_out", "due", "unit", "container")
_OURS = ("autograder", "ringside", "solutions")


@functools.cache
def kit_digest(kit: Path, assignment: str, module: str) -> str:
    """A hash of a module's suite, what that imports, the machines and the code that grades."""
    files, digest = _run(kit)
    return _digest(kit, suite_files(kit, assignment, module) - files, digest)


@functools.cache
def unit_digest(kit: Path, assignment: str) -> str:
    """A hash of all that decides what a unit's modules, edits and right forms earn.

    Its modules, tests and cases, edits, and what is given; what they import;
    the limits; and the code that grades. Its notebook and pages aren't in it.
    """
    unit = kit / "solutions" / assignment
    paths = set(_files([unit], (".py", ".diff", *_DATA))) - {unit / "notebook.py"}
    forms = {path for path in paths if path.relative_to(unit).parts[0] == "verify"}
    limits = kit / "autograder" / "course" / "limits.toml"
    files, digest = _run(kit)
    others = _followed(kit, paths - forms) | forms | {limits}
    return _digest(kit, others - files, digest, exact=forms)


def forget() -> None:
    """Read files again: for who changes a kit while this process lives."""
    kit_digest.cache_clear()
    unit_digest.cache_clear()
    _run.cache_clear()


def run_files(kit: Path) -> set[Path]:
    """The kit's files that every grade depends on."""
    return _followed(kit, _files([kit / name for name in RUN], (".py", *_DATA)))


@functools.cache
def _run(kit: Path) -> tuple[set[Path], str]:
    files = run_files(kit)
    return files, _digest(kit, files)


def suite_files(kit: Path, assignment: str, module: str) -> set[Path]:
    """A module's tests, the unit's hidden cases, what is in ranks, and what these import of ours.

    Where a file's imports can't be told, by ``importlib`` or since it isn't Python, all files of
    the assignment count.
    """
    unit = kit / "solutions" / assignment
    in_ranks = {*(unit / "checks").glob("inside*.py"), *(unit / "given").glob("*.*")}
    tests = {unit / "checks" / f"test_{module}.py", unit / "hidden" / "cases.py"}
    points = {unit / "checks" / "requirements.toml"}
    files = _followed(kit, tests | in_ranks) | {path for path in points if path.is_file()}
    # What is in ranks looks for the student's own modules by name, and for no other.
    paths = {path for path in files - in_ranks if kit / "solutions" in path.parents}
    if (tests | in_ranks) <= files and not any(map(_by_name, paths)):
        return files
    folders = [unit / "checks", unit / "given", unit / "hidden", *unit.glob("*.*")]
    return _followed(kit, _files(folders, (".py", *_DATA)))


def _by_name(path: Path) -> bool:
    """Whether a file may import what its text doesn't name."""
    imports = _code(path.read_bytes()).imports if path.suffix == ".py" else ()
    return imports is None or any(name.split(".")[0] == "importlib" for name in imports)


def _followed(kit: Path, start: Iterable[Path]) -> set[Path]:
    """The files that are there of `start`, what they import of ours, and what that reads."""
    waiting, files, seen = list(start), set[Path](), set[Path]()
    while waiting:
        path = waiting.pop()
        name = path.relative_to(kit).as_posix()
        if path in files or not path.is_file() or _lies_in(name, APART):
            continue
        files.add(path)
        waiting += (parent / "__init__.py" for parent in path.parents if kit in parent.parents)
        if path.suffix == ".py" and name != FRONT:
            targets = set(_targets(kit, path, _code(path.read_bytes()).imports or ())) - seen
            for target in targets:
                waiting += target / "__init__.py", target.with_suffix(".py")
            seen |= targets
        if name in READ:
            waiting += _files([kit / READ[name]], _DATA)
    return files


def _lies_in(name: str, folders: Iterable[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def _targets(kit: Path, importer: Path, names: Iterable[str]) -> Iterator[Path]:
    """Where modules of these names would lie, without suffix, if they are ours."""
    in_unit = kit / "solutions" in importer.parents
    for name in names:
        stem = name.lstrip(".")
        if dots := len(name) - len(stem):
            base = importer.parents[dots - 1]
        elif stem.split(".")[0] in _OURS:
            base = kit
        elif in_unit:
            # What lies beside it, or in the unit's folders; for a library nothing is there.
            base = kit / "solutions" / importer.relative_to(kit / "solutions").parts[0]
            yield from (
                target
                for target in [importer.parent.joinpath(*stem.split("."))]
                if kit in target.parents
            )
        else:
            continue
        target = base.joinpath(*stem.split("."))
        if kit in target.parents:
            yield target


def _files(roots: Iterable[Path], suffixes: tuple[str, ...]) -> set[Path]:
    return {path for path in files_below(roots) if path.suffix in suffixes}


def files_below(roots: Iterable[Path]) -> set[Path]:
    """The files among `roots`, and those in its folders."""
    paths = (path for root in roots for path in ([root] if root.is_file() else root.rglob("*")))
    return {path for path in paths if path.is_file()}


def _digest(kit: Path, files: Iterable[Path], run: str = "", exact: Iterable[Path] = ()) -> str:
    """A hash of files by their names and what they say; those of `exact` to the letter."""
    digest = hashlib.sha256(run.encode())
    for path in sorted(files):
        content = path.read_bytes()
        if path not in exact:
            content = content_of(path.suffix, content)
        for part in (path.relative_to(kit).as_posix().encode(), content):
            digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def content_of(suffix: str, content: bytes) -> bytes:
    """What counts of a file's content: a digest of its syntax, a table's values, or all."""
    if suffix == ".py":
        return _code(content).digest
    if suffix == ".toml":
        try:
            table = tomllib.loads(content.decode())
        except ValueError:
            return content
        if "module" in table:  # an assignment.toml
            table = {key: value for key, value in table.items() if key not in _FACTS}
        return ascii(table).encode()
    return content


class _Code(NamedTuple):
    digest: bytes
    imports: tuple[str, ...] | None  # dotted, at any depth of the code; None: it is no Python


@functools.cache
def _code(content: bytes) -> _Code:
    try:
        tree = parsed(content)
        syntax, statements = list[str](), list[ast.stmt]()
        _spell(tree, syntax, statements)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Code(hashlib.sha256(content).digest(), None)
    digest = hashlib.sha256(" ".join(syntax).encode()).digest()
    return _Code(digest, tuple(_imports(statements)))


def _imports(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base
            dot = "" if base.endswith(".") else "."
            yield from (f"{base}{dot}{alias.name}" for alias in node.names)


# Fields that say nothing of what runs.
_UNSAID = {"ctx", "kind", "type_comment", "type_ignores"}


@functools.cache
def _fields(kind: str) -> tuple[str, ...]:
    return tuple(field for field in getattr(ast, kind)._fields if field not in _UNSAID)


def _spell(node: Any, syntax: list[str], imports: list[ast.stmt]) -> None:
    """Append a node's words to `syntax`, and import statements to `imports`.

    Empty fields go unsaid: a newer Python has more of them.
    """
    if isinstance(node, ast.AST):
        kind = type(node).__name__
        syntax += "(", kind
        if kind in ("Import", "ImportFrom"):
            imports.append(node)  # type: ignore[arg-type]
        for field in _fields(kind):
            value = getattr(node, field, None)
            if kind == "JoinedStr":
                value = _joined(value or ())
            if (value is None and kind != "Constant") or value == []:
                continue
            syntax.append(field)
            _spell(value, syntax, imports)
        syntax.append(")")
    elif isinstance(node, list):
        syntax.append("[")
        for item in node:
            if not _is_remark(item):
                _spell(item, syntax, imports)
        syntax.append("]")
    else:
        syntax.append(ascii(node))


def _joined(parts: Iterable[Any]) -> list[Any]:
    """An f-string's parts: texts, none of them empty or beside another, and expressions."""
    joined: list[Any] = []
    for part in parts:
        text = part.value if isinstance(part, ast.Constant) else part
        if isinstance(text, str) and joined and isinstance(joined[-1], str):
            joined[-1] += text  # Python 3.12 cuts some texts in two
        elif text != "":
            joined.append(text)
    return joined


def _is_remark(node: Any) -> bool:
    """Whether this is a statement that is but a string: a docstring, also of an attribute."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return False
    return isinstance(node.value.value, str)
