"""The texts of an assignment without a module: what `autograder.author.removal` writes.

Texts are cut, never written anew, so that what an instructor wrote around a cut stays as it is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from autograder.publish import consistency

__all__ = [
    "defined", "without_cases", "without_cells", "without_node",
    "without_tables", "words",
]  # fmt: skip

_LINE = 100  # characters, of an import that is written anew
_CELL = re.compile(r"(?m)^(?=# %%)")


def without_tables(text: str, module: str) -> str:
    """assignment.toml without the tables that are about a module."""
    parts = re.split(r"(?m)^(?=\s*\[)", text)
    name = re.compile(rf'(?m)^\s*name\s*=\s*"{module}"')
    of = re.compile(rf'(?m)^\s*module\s*=\s*"{module}"')

    def goes(part: str) -> bool:
        if part.lstrip().startswith("[[module]]"):
            return bool(name.search(part))
        return part.lstrip().startswith(("[[run]]", "[[measured]]")) and bool(of.search(part))

    return "".join(part for part in parts if not goes(part)).rstrip("\n") + "\n"


def without_cases(text: str, module: str) -> str:
    """hidden/cases.py without the cases of a module's tests; what only they used may stay."""
    tests, names, gone = f"test_{module}", set[str](), list[ast.stmt]()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module == "checks":
            found = {alias.asname or alias.name for alias in node.names if alias.name == tests}
            names |= found
            gone += [node] if found and len(node.names) == 1 else []
        elif names & {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}:
            gone.append(node)
    lines = text.splitlines(keepends=True)
    for node in reversed(gone):
        del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def without_cells(text: str, module: str, runs: set[str]) -> str:
    """notebook.py without a module's section; without its cells where others share the section."""
    sections: list[list[str]] = [[]]
    for cell in _CELL.split(text):
        if re.search(r"(?m)^# ## ", cell):
            sections.append([])
        sections[-1].append(cell)
    cells: list[str] = []
    for section in sections:
        tags = [_named(cell) for cell in section]
        mine = [
            (verb in ("module", "check") and word == module) or (verb == "run" and word in runs)
            for verb, word in tags
        ]
        others = any(verb and not is_own for (verb, _), is_own in zip(tags, mine, strict=True))
        if any(mine) and not others:
            continue
        cells += [cell for cell, is_own in zip(section, mine, strict=True) if not is_own]
    return "".join(cells)


def _named(cell: str) -> tuple[str, str]:
    """The directive of a cell: its verb and what it names."""
    match = consistency.DIRECTIVE.fullmatch("\n".join(cell.splitlines()[1:]).strip())
    return (match[1], match[2].split()[0]) if match and match[2].split() else ("", "")


# What nothing names any more


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


def defined(text: str) -> Iterator[tuple[ast.stmt, str]]:
    """What stands at the top of a file, and its name: functions, classes, constants, imports."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("test_"):
            yield node, node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node, node.targets[0].id
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            yield from ((node, alias.asname or alias.name) for alias in node.names)


def without_node(text: str, node: ast.stmt, name: str) -> str:
    """A file without a function, a class, a constant, or one name of an import."""
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(mark.lineno for mark in getattr(node, "decorator_list", []))]) - 1
    last = node.end_lineno or node.lineno
    if isinstance(node, ast.ImportFrom) and len(node.names) > 1:
        aliases = [alias for alias in node.names if (alias.asname or alias.name) != name]
        node.names = aliases
        return "".join([*lines[:first], _import_line(node), *lines[last:]])
    while last < len(lines) and not lines[last].strip():
        last += 1
    return "".join([*lines[:first], *lines[last:]])


def _import_line(node: ast.ImportFrom) -> str:
    line = ast.unparse(node)
    if len(line) <= _LINE:
        return f"{line}\n"
    head, _, names = line.partition(" import ")
    return f"{head} import (\n" + "".join(f"    {name},\n" for name in names.split(", ")) + ")\n"
