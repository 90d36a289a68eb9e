"""The texts of an assignment without a module: what `autograder.author.removal` writes.

Texts are cut, never written anew, so that what an instructor wrote around a cut stays as it is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from autograder.publish import consistency

__all__ = [
    "defined", "without_cases", "without_cells", "without_lines", "without_node",
    "without_tables", "without_tests", "words",
]  # fmt: skip

_LINE = 100  # characters, of an import that is written anew
_CELL = re.compile(r"(?m)^(?=# %%)")
_AFTER = re.compile(rb"\s*,?[ \t]*(#[^\n]*)?")


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


def without_lines(text: str, module: str) -> str:
    """lines_that_show_less.toml without the lines of a module's tests."""
    return re.sub(rf'(?m)^"{module}/.*\n', "", text)


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


def without_tests(text: str, module: str) -> str:
    """Python without a module's tests, and without rows of tables that name it."""
    source = text.encode()
    tree = ast.parse(text)
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def span(node: ast.stmt | ast.expr, first: ast.expr | None = None) -> tuple[int, int]:
        start = first or node
        last = lines[(node.end_lineno or node.lineno) - 1]
        return lines[start.lineno - 1] + start.col_offset, last + (node.end_col_offset or 0)

    aliases = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _calls(node.value, "points_of", module)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    cuts: list[tuple[int, int]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_test_of(node, module, aliases):
            first_line = min(node.lineno, *(mark.lineno for mark in node.decorator_list))
            start, end = lines[first_line - 1], span(node)[1]
            cuts.append((start, _past_blank_lines(source, end)))
    unpacked = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
    }
    inside = (child for child in ast.walk(tree) if id(child) not in unpacked)
    for literal in inside:
        for first, last in _rows_about(literal, module):
            start, end = span(last, first)
            match = _AFTER.match(source, end)
            cuts.append((start, match.end() if match else end))
    return _without(source, cuts).decode()


_ROWS = ast.List | ast.Tuple | ast.Set


def _calls(node: ast.AST, function: str, module: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == function
        and any(isinstance(arg, ast.Constant) and arg.value == module for arg in node.args)
    )


def _is_test_of(node: ast.FunctionDef, module: str, aliases: set[str]) -> bool:
    """Whether all points of a test, of all of its cases, are this module's."""
    marks = [part for mark in node.decorator_list for part in ast.walk(mark)]
    if any(
        isinstance(part, ast.Call) and getattr(part.func, "id", "") in aliases for part in marks
    ):
        return True
    about = [
        _calls(part, "points", module)
        for part in marks
        if isinstance(part, ast.Call) and getattr(part.func, "id", "") == "points"
    ]
    return bool(about) and all(about)


def _rows_about(node: ast.AST, module: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The entries of a literal that name the module: where each begins, and where it ends."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and (_is_about(key, module) or _is_about(value, module)):
                yield key, value
    elif isinstance(node, _ROWS):
        for row in node.elts:
            if _is_about(row, module):
                yield row, row


def _is_about(node: ast.AST, module: str) -> bool:
    """Whether it is the module's name or a target in it, or a row that begins with one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.fullmatch(rf"{module}(?:\.py)?(?::\w+)?", node.value) is not None
    row = node.elts if isinstance(node, ast.Tuple) else []
    row = node.args if isinstance(node, ast.Call) else row
    return bool(row) and isinstance(row[0], ast.Constant) and _is_about(row[0], module)


def _past_blank_lines(source: bytes, end: int) -> int:
    while end < len(source) and source[end : end + 1] in b"\n":
        end += 1
    return end


def _without(source: bytes, cuts: Sequence[tuple[int, int]]) -> bytes:
    pieces, at = [], 0
    for start, end in sorted(cuts):
        if start >= at:
            pieces.append(source[at:start])
        at = max(at, end)
    return b"".join([*pieces, source[at:]])


# What nothing names any more


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text))


def defined(text: str) -> Iterator[tuple[ast.stmt, str]]:
    """What stands at the top of a file, and its name: functions, constants, imported names."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("test_"):
            yield node, node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node, node.targets[0].id
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            yield from ((node, alias.asname or alias.name) for alias in node.names)


def without_node(text: str, node: ast.stmt, name: str) -> str:
    """A file without a function, a constant, or one name of an import."""
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
