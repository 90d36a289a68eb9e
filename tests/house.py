"""The house in figures: rooms, floors, arrows and lines of ringside and autograder.

    python -m tests.house                      as the tree is now
    python -m tests.house --against 635af2cf   that commit beside it

A *room* is a folder of a package, or a file beside the folders. An *arrow* leads from a room to
another one that it imports, wherever in its files and at any depth. A room's *floor* is one above
the highest room that it imports::

    commands  --arrow-->  course  --arrow-->  jobs  --arrow-->  errors.py
    floor 4               floor 3             floor 2           floor 1
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ringside", "autograder")
# All their texts are weighed; of the packages, what is Python.
OTHERS = ("solutions", "tests", "assignments", "lectures", "benchmarks", "cluster", "docs")
NOT_OURS = {".ipynb", ".png", ".npz", ".json", ".csv", ".zip", ".pyc"}
# Submissions for tests: wrong, hostile or no Python at all, on purpose.
SUBMISSIONS = {"wrong", "right", "redteam", "new_assignment"}


def is_submission(inside: Path) -> bool:
    """Whether a file, as seen from the root, is a submission for tests."""
    in_a_unit = inside.parts[0] == "solutions" and "verify" in inside.parts
    return in_a_unit or bool(SUBMISSIONS & set(inside.parts[:-1]))


# Participles and pronouns that say what happened to a thing, and not what it is.
DIALECT = {
    *("each", "found", "place", "words", "said", "told", "given", "own", "known", "shown"),
    *("left", "counts", "made", "asked"),
}
MANY_ARGUMENTS, LONG_FILE, LONG_FUNCTION, LONG_CLASS = 5, 300, 60, 300

Function = ast.FunctionDef | ast.AsyncFunctionDef


class RelativeImportError(Exception):
    """A module imports another one by a relative name."""


def modules(package: str, root: Path = ROOT) -> dict[str, Path]:
    """The package's modules by name, without files that are data: templates, submissions."""
    by_name = {}
    for path in sorted((root / package).rglob("*.py")):
        inside = path.relative_to(root)
        folders = [root / part for part in inside.parents if part != Path(".")]
        is_module = all((folder / "__init__.py").exists() for folder in folders)
        if is_module and not is_submission(inside):
            parts = inside.with_suffix("").parts
            by_name[".".join(part for part in parts if part != "__init__")] = path
    return by_name


def arrows(package: str, root: Path = ROOT) -> dict[str, set[str]]:
    """The modules of the package that each imports, at any depth and for types too.

    Raises:
        RelativeImportError: a module uses a relative name, which would hide where it leads.
    """
    paths = modules(package, root)
    return {
        module: _imported(module, ast.parse(path.read_bytes()), paths.keys())
        for module, path in paths.items()
    }


def _imported(module: str, tree: ast.Module, ours: Set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(source), level=0):
                inside = {f"{source}.{alias.name}" for alias in node.names}
                names |= inside & ours or {source}
                names |= {source} if inside - ours else set()
            case ast.ImportFrom():
                raise RelativeImportError(f"{module} imports by a relative name; write it in full")
            case ast.Call(ast.Attribute(attr="import_module"), [ast.Constant(str(name))]):
                names.add(name)
    return names & ours - {module}


def room_of(module: str) -> str:
    """The folder or root file that a module is in: ``jobs`` for ``ringside.jobs.launch.slurm``."""
    return [*module.split("."), "__init__"][1]


@dataclass
class Package:
    """What one package is measured by."""

    rooms: set[str]
    room_arrows: set[tuple[str, str]]
    num_floors: int
    num_modules: int
    single_importer: list[str]


@dataclass
class Code:
    """What a set of files is measured by."""

    num_files: int = 0
    num_lines: int = 0
    file_lines: list[int] = field(default_factory=list)
    function_lines: list[int] = field(default_factory=list)
    num_comments: int = 0
    num_variables: int = 0  # one for each function that assigns it
    num_dialect: int = 0
    many_arguments: list[str] = field(default_factory=list)
    long_files: list[str] = field(default_factory=list)
    long_functions: list[str] = field(default_factory=list)
    long_classes: list[str] = field(default_factory=list)


def measured_package(package: str, root: Path = ROOT) -> Package:
    """Rooms, arrows and floors of a package."""
    imports = arrows(package, root)
    rooms = {room_of(module) for module in imports}
    between = {
        (room_of(module), room_of(other))
        for module, others in imports.items()
        for other in others
        if room_of(module) != room_of(other)
    }
    importers = Counter(other for others in imports.values() for other in others)
    single = sorted(module for module, count in importers.items() if count == 1)
    return Package(rooms, between, len(floors(rooms, between)), len(imports), single)


def floors(rooms: set[str], between: set[tuple[str, str]]) -> list[set[str]]:
    """Rooms from the ground up; what lies on a circle, or above one, is the last floor."""
    stack: list[set[str]] = []
    left = set(rooms)
    while left:
        blocked = {room for room, below in between if room in left and below in left}
        stack.append(left - blocked or left)
        left -= stack[-1]
    return stack


def measured_code(folder: str, root: Path = ROOT) -> Code:
    """Lines of a folder's texts, and what its Python is like."""
    code = Code()
    for path in sorted((root / folder).rglob("*")):
        inside = path.relative_to(root)
        hidden = "__pycache__" in inside.parts or any(part[0] == "." for part in inside.parts)
        # ringside/cluster is a link to cluster/
        if not path.is_file() or hidden or path.suffix in NOT_OURS or path.is_symlink():
            continue
        if inside.parts[0] in PACKAGES and path.suffix != ".py":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        code.num_files += 1
        code.num_lines += text.count("\n")
        if path.suffix == ".py" and not is_submission(inside):
            _measure_module(code, inside.as_posix(), text)
    return code


def _measure_module(code: Code, name: str, text: str) -> None:
    lines = text.splitlines()
    code.file_lines.append(len(lines))
    code.num_comments += sum(line.lstrip().startswith("#") for line in lines)
    if len(lines) > LONG_FILE:
        code.long_files.append(name)
    for node in ast.walk(ast.parse(text)):
        where = f"{name}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, Function):
            length = _length(node)
            code.function_lines.append(length)
            if length > LONG_FUNCTION:
                code.long_functions.append(f"{where} {node.name}")
            if num_positional(node.args) > MANY_ARGUMENTS:
                code.many_arguments.append(f"{where} {node.name}")
            variables = assigned(node)
            code.num_variables += len(variables)
            code.num_dialect += len(variables & DIALECT)
        elif isinstance(node, ast.ClassDef) and _length(node) > LONG_CLASS:
            code.long_classes.append(f"{where} {node.name}")


def num_positional(arguments: ast.arguments) -> int:
    """Arguments that a call may give by their position, without ``self``."""
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def assigned(function: Function) -> set[str]:
    """The variables that a function assigns, loops and comprehensions included."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _length(node: Function | ast.ClassDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


Rows = dict[str, float | str]


def figures(root: Path = ROOT) -> Rows:
    """All figures of a tree, by the line of the table that they stand in."""
    rows: Rows = {}
    packages = {name: measured_package(name, root) for name in PACKAGES}
    codes = {name: measured_code(name, root) for name in (*PACKAGES, *OTHERS)}
    for name, package in packages.items():
        rows[f"{name}: rooms"] = len(package.rooms)
        rows[f"{name}: floors"] = package.num_floors
        rows[f"{name}: arrows between rooms"] = len(package.room_arrows)
        rows[f"{name}: modules"] = package.num_modules
        rows[f"{name}: with a single importer"] = len(package.single_importer)
    for name in PACKAGES:
        code = codes[name]
        lengths = sorted(code.function_lines)
        rows[f"{name}: file, median / longest"] = (
            f"{statistics.median(code.file_lines):.0f} / {max(code.file_lines)}"
        )
        rows[f"{name}: function, median / p90 / longest"] = (
            f"{statistics.median(lengths):.0f} / {lengths[len(lengths) * 9 // 10]} / {lengths[-1]}"
        )
        rows[f"{name}: own-line comments in 100 lines"] = round(
            100 * code.num_comments / sum(code.file_lines), 2
        )
        rows[f"{name}: dialect among variables, %"] = round(
            100 * code.num_dialect / code.num_variables, 2
        )
        rows[f"{name}: functions of more than {MANY_ARGUMENTS} positional arguments"] = len(
            code.many_arguments
        )
        rows[f"{name}: files past {LONG_FILE} lines"] = len(code.long_files)
        rows[f"{name}: functions past {LONG_FUNCTION}"] = len(code.long_functions)
        rows[f"{name}: classes past {LONG_CLASS}"] = len(code.long_classes)
    for name, code in codes.items():
        rows[f"{name}: files"] = code.num_files
        rows[f"{name}: lines"] = code.num_lines
    for name, package in packages.items():
        for room in sorted(package.rooms):
            if (root / name / room).is_dir():
                rows[f"{name}/{room}: lines"] = measured_code(f"{name}/{room}", root).num_lines
    return rows


def table(columns: Mapping[str, Rows]) -> str:
    """Figures side by side, a column for each tree."""
    lines = [f"{'':58}" + "".join(f"{title:>16}" for title in columns)]
    for name in dict.fromkeys(name for rows in columns.values() for name in rows):
        cells = (rows.get(name, "-") for rows in columns.values())
        texts = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
        lines.append(f"{name:58}" + "".join(f"{text:>16}" for text in texts))
    return "\n".join(lines)


def figures_of(commit: str) -> Rows:
    """Figures of the tree of a commit, which is unpacked into a scratch folder."""
    paths = [*PACKAGES, *OTHERS]
    archive = subprocess.run(
        ["git", "archive", commit, *paths], cwd=ROOT, capture_output=True, check=True
    )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
        return figures(Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="COMMIT", help="figures of this commit, too")
    parser.add_argument("--list", action="store_true", help="name what is long, or has one user")
    asked = parser.parse_args()
    before = {asked.against[:12]: figures_of(asked.against)} if asked.against else {}
    print(table({**before, "now": figures()}))
    if asked.list:
        for name in PACKAGES:
            code = measured_code(name)
            for title, places in (
                ("a single importer", measured_package(name).single_importer),
                ("many positional arguments", code.many_arguments),
                ("long files", code.long_files),
                ("long functions", code.long_functions),
                ("long classes", code.long_classes),
            ):
                print(f"\n{name}, {title}:", *places, sep="\n  ")


if __name__ == "__main__":
    main()
