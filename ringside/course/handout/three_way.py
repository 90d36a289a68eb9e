"""A student's module and a newer stub made one: the kit's changes come, the student's lines stay.

    stub as it was          the student's           newer stub              merged
    def f(comm):            def f(comm):            def f(comm: Comm):      def f(comm: Comm):
        "Give x."               "Give x."               "Give x again."         "Give x again."
        raise NotImpl...        return comm.x           raise NotImpl...        return comm.x

Lines that the kit alone changed are taken from the newer stub; all others are the student's. A
docstring or a signature is one piece: where the student changed a line of it, all of it stays.
What comes of it must compile and name nothing that isn't there, and each function that the student
wrote must have the student's code and the arguments that this code names. Else the docstrings alone
are merged, and if that isn't safe either, nothing is.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

__all__ = ["ThreeWay", "three_way"]

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class ThreeWay:
    """A merged module."""

    text: str
    whole: bool  # whether all of the kit's changes are in it


@dataclass(frozen=True)
class _Edit:
    """Lines ``lo`` to ``hi - 1`` of the old stub give way to others; none of them: an insertion."""

    lo: int
    hi: int
    lines: tuple[str, ...]


def three_way(old: str, mine: str, newer: str) -> ThreeWay | None:
    """Bring what the kit changed from ``old`` to ``newer`` into ``mine``.

    Returns:
        None where that isn't safe: ``mine`` is to stay as it is.
    """
    try:
        trees = [ast.parse(text) for text in (old, mine, newer)]
    except (SyntaxError, ValueError):
        return None
    base, end = _lines(old), mine[len(mine.rstrip("\n")) :]
    kits, students = _edits(base, _lines(newer)), _edits(base, _lines(mine))
    docstrings = list(_docstrings(trees[0]))
    pieces = [*docstrings, *_signatures(trees[0])]
    touched = [piece for piece in pieces if any(_meets(change, piece) for change in students)]
    fresh = [edit for edit in kits if not any(_has(other, edit) for other in students)]
    free = [
        edit
        for edit in fresh
        if not any(_meets(edit, piece) for piece in touched)
        and not any(_collides(edit, other) for other in students)
    ]
    doc_edits = [edit for edit in free if any(_meets(edit, piece) for piece in docstrings)]
    for taken in (free, doc_edits):
        text = "\n".join(_applied(base, taken, students)) + end
        if _is_safe(trees[0], trees[1], text):
            return ThreeWay(text, whole=len(taken) == len(fresh))
    return None


def _lines(text: str) -> list[str]:
    return text.rstrip("\n").split("\n")


def _edits(old: Sequence[str], new: Sequence[str]) -> list[_Edit]:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    edits = []
    for kind, lo, hi, a, b in matcher.get_opcodes():
        if kind == "equal":
            continue
        if hi - lo == b - a:  # line by line: a signature and the docstring below it are two
            edits += [_Edit(lo + k, lo + k + 1, (new[a + k],)) for k in range(hi - lo)]
        else:
            edits.append(_Edit(lo, hi, tuple(new[a:b])))
    return edits


def _docstrings(tree: ast.Module) -> Iterator[_Edit]:
    """The lines of each docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | _Definition) and _is_documented(node):
            yield _Edit(node.body[0].lineno - 1, node.body[0].end_lineno or 0, ())


def _signatures(tree: ast.Module) -> Iterator[_Edit]:
    for node in ast.walk(tree):
        if isinstance(node, _Definition):
            yield _Edit(node.lineno - 1, max(node.body[0].lineno - 1, node.lineno), ())


def _meets(edit: _Edit, piece: _Edit) -> bool:
    """Whether an edit changes a line of a piece; lines that are put before or behind don't."""
    return edit.lo < piece.hi and piece.lo < edit.hi


def _has(student: _Edit, kit: _Edit) -> bool:
    """Whether the student has made the kit's edit already."""
    around = student.lo <= kit.lo and kit.hi <= student.hi
    return around and set(kit.lines) <= set(student.lines)


def _collides(kit: _Edit, student: _Edit) -> bool:
    if kit.lo == kit.hi == student.lo == student.hi:  # two insertions: which is first?
        return not all(_is_import(line) for line in kit.lines)
    return _meets(kit, student)


def _is_import(line: str) -> bool:
    return not line.strip() or line.startswith(("import ", "from "))


def _applied(
    base: Sequence[str], kits: Sequence[_Edit], students: Sequence[_Edit]
) -> Iterator[str]:
    at = 0
    # Where both insert, the kit's lines are imports: they go first.
    for edit in sorted([*kits, *students], key=lambda each: (each.lo, each.hi)):
        yield from base[at : edit.lo]
        yield from edit.lines
        at = edit.hi
    yield from base[at:]


def _is_safe(old: ast.Module, mine: ast.Module, text: str) -> bool:
    """Whether what the student wrote is in the merged module as it was, and can run as it did."""
    try:
        merged = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    before, wrote, has = _definitions(old), _definitions(mine), _definitions(merged)
    return _unbound(merged) <= _unbound(mine) and all(
        name in has and has[name].code == body.code and has[name].arguments >= body.arguments
        for name, body in wrote.items()
        if name not in before or body.code != before[name].code
    )


@dataclass
class _Body:
    """What a definition does, without docstrings."""

    code: list[str]
    arguments: set[str]


def _definitions(tree: ast.Module) -> dict[str, _Body]:
    """All functions and classes by their dotted names; "": the module, without its imports."""
    bodies: dict[str, _Body] = {}

    def visit(node: ast.Module | _Definition, name: str) -> None:
        body = bodies.setdefault(name, _Body([], set()))
        for statement in node.body[_is_documented(node) :]:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body.code.append(ast.dump(statement))
            elif isinstance(statement, _Definition):
                visit(statement, f"{name}.{statement.name}")
            elif not isinstance(statement, ast.Import | ast.ImportFrom):
                body.code.append(ast.dump(statement))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body.arguments |= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}

    visit(tree, "")
    return bodies


def _is_documented(node: ast.Module | _Definition) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def _unbound(tree: ast.Module) -> set[str]:
    """Names that are used, and that nothing in the module gives a value."""
    used, bound = set[str](), set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, _Definition):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
    return used - bound
