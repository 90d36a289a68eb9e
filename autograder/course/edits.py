"""Wrong submissions and right forms as edits of the reference: a few lines each, many in a file.

``solutions/<assignment>/verify/ring.diff`` holds the variants of ``ring.py``::

    === sends_one_step_too_few
    The loop ends one step early, so that every rank lacks one shard.
    fails: test_values
    earns: 20 to 40
    @@ reduce_scatter
         for step in range(
    -        world_size - 1
    +        world_size - 2
         ):

An edit has a name, a sentence, the test that must fail, what it ``earns`` of the module's 100
points, and its changes. The author writes down the range that an instructor would sign, before the
edit is graded; it is checked as well.
``honest: no`` marks what nobody writes by mistake; all others are mistakes of students, so that
public tests must warn of them before they cost much (``autograder.author.verify.verify``).

An edit that says ``right`` in the place of ``fails: TEST`` is a right form: it gets full marks.

A change names the function or class that it is in (or nothing: the whole file), then shows lines
as ``diff`` does: kept, removed and added ones. ``@@ replace NAME`` gives a whole definition anew,
``@@ add`` adds lines at the end of the file.

An edit applies to the *bare* reference: without docstrings, comments and blank lines. So what is
said about the code can change, and no edit breaks. Where the code of a reference changes, an edit
whose lines are not found, or are found twice, is an error that names it.

What is wholly different stands as a file of its own, ``verify/ring__NAME.py``, whose first lines
say the same: ``# fails: TEST`` and ``# earns: 0 to 10``, or ``# right``, then the sentence
as a docstring.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path

from autograder.course.assignment import AssignmentError

_FIELD = re.compile(r"(fails|earns|honest):(.*)|(right)\s*$")
_FOLDER = "verify"
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Change:
    """Lines that give way to others.

    Attributes:
        place: dotted name of the definition that they are in; empty for the whole file.
        before: lines of the bare reference, kept and removed ones; none: the whole definition,
            or without a place the end of the file.
        after: what stands there instead, kept and added lines.
    """

    place: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Variant:
    """A variant of a module: a wrong submission, or a right one in an unusual form."""

    module: str
    name: str  # with the module before it: "ring__sends_one_step_too_few"
    sentence: str
    fails: str  # the test that must fail; empty: none, it is right
    source: str
    earns: tuple[float, float] | None = None  # of a wrong one, the points that it must earn
    honest: bool = True


def variants(solution: Path, modules: Sequence[str]) -> list[Variant]:
    """All wrong submissions and right forms of the modules of an assignment, by module and name.

    Args:
        solution: the assignment's folder in ``solutions/``.

    Raises:
        AssignmentError: a file can't be read as what it should be, or an edit does not apply.
    """
    found: list[Variant] = []
    for module in modules:
        edits = solution / _FOLDER / f"{module}.diff"
        if edits.is_file():
            found += _edited(edits, solution / f"{module}.py")
    for path in sorted((solution / _FOLDER).glob("*.py")):
        if path.stem.partition("__")[0] in modules:
            found.append(_whole(path))
    names = [each.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise AssignmentError(f"{solution}: there are two submissions named {name!r}.")
    return sorted(found, key=lambda each: (each.module, each.name))


def of_no_module(solution: Path, modules: Sequence[str]) -> list[Path]:
    """Files of variants that belong to none of the modules."""
    files = sorted((solution / _FOLDER).glob("*"))
    kinds = {".py", ".diff"}
    return [
        path
        for path in files
        if path.suffix in kinds and path.stem.partition("__")[0] not in modules
    ]


def one(solution: Path, name: str) -> Variant:
    """The variant of this name, such as ``"ring__send_cycle"``.

    Raises:
        AssignmentError: there is none.
    """
    module = name.partition("__")[0]
    for variant in variants(solution, [module]):
        if variant.name == name:
            return variant
    raise AssignmentError(f"{solution} has no submission {name!r} to verify by.")


def shown(variant: Variant, reference: str) -> str:
    """What a person reads of it: the sentence, the test, and the difference to the reference."""
    lines = difflib.unified_diff(
        bare(reference),
        bare(variant.source),
        f"{variant.module}.py",
        variant.name,
        lineterm="",
        n=3,
    )
    head = [f"{variant.name}: {variant.sentence}"]
    head += [f"fails: {variant.fails}" if variant.fails else "right"]
    head += [f"earns: {variant.earns[0]:g} to {variant.earns[1]:g}"] if variant.earns else []
    return "\n".join([*head, *lines])


# Reading


def _edited(path: Path, reference: Path) -> Iterator[Variant]:
    lines = bare(reference.read_text(encoding="utf-8"))
    for number, name, text in _entries(path):
        place = f"{path}:{number}: {name}"
        sentence, fields, changes = _parsed(place, text)
        source = lines
        for change in changes:
            source = applied(source, change, place)
        try:
            ast.parse(content := "\n".join(source) + "\n")
        except SyntaxError as error:
            raise AssignmentError(
                f"{place}: what comes of the edit is no Python: {error}"
            ) from None
        if source == lines:
            raise AssignmentError(f"{place}: the edit changes nothing.")
        yield _wrong(place, path.stem, f"{path.stem}__{name}", sentence, fields, content)


def _entries(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """The edits of a file: line number, name, and the lines below."""
    start, name, text = 0, "", list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("=== "):
            if name:
                yield start, name, text
            start, name, text = number, line[4:].strip(), []
        elif name:
            text.append(line)
        elif line.strip():
            raise AssignmentError(f"{path}:{number}: an edit begins with '=== NAME', not {line!r}.")
    if name:
        yield start, name, text


def _parsed(place: str, text: Sequence[str]) -> tuple[str, dict[str, str], list[Change]]:
    """An edit's sentence, its fields (``fails``, ...) and its changes."""
    starts = [number for number, line in enumerate(text) if line.startswith("@@")]
    head = text[: starts[0]] if starts else text
    sentence = " ".join(line.strip() for line in head if line.strip() and not _FIELD.match(line))
    changes = [_change(place, text[a:b]) for a, b in pairwise([*starts, len(text)])]
    for what, there in (("sentence", sentence), ("change", changes)):
        if not there:
            raise AssignmentError(f"{place}: the edit has no {what}.")
    return sentence, _fields(head), changes


def _fields(head: Sequence[str]) -> dict[str, str]:
    matches = [match for line in head if (match := _FIELD.match(line))]
    return {match[1] or match[3]: (match[2] or "").strip() for match in matches}


def _wrong(
    place: str, module: str, name: str, sentence: str, fields: Mapping[str, str], source: str
) -> Variant:
    """A wrong submission, its fields read."""
    if bool(fields.get("fails")) == ("right" in fields):
        raise AssignmentError(f"{place}: an edit has either 'fails: TEST' or 'right'.")
    if ("earns" in fields) == ("right" in fields):
        raise AssignmentError(
            f"{place}: a wrong edit says what an instructor would give it, like 'earns: 40 to 70'; "
            "a right one doesn't."
        )
    band = None
    if "earns" in fields:
        match = re.fullmatch(r"(\d+) to (\d+)", fields["earns"])
        if match is None or not 0 <= int(match[1]) <= int(match[2]) <= 100:
            raise AssignmentError(
                f"{place}: 'earns: {fields['earns']}' is no range of points like 'earns: 40 to 70'."
            )
        band = float(match[1]), float(match[2])
    if fields.get("honest", "no") != "no":
        raise AssignmentError(
            f"{place}: 'honest: {fields['honest']}' must be 'honest: no', or not be there."
        )
    fails = fields.get("fails", "")
    return Variant(module, name, sentence, fails, source, band, "honest" not in fields)


def _change(place: str, text: Sequence[str]) -> Change:
    """A change, from the line that names its place to the last one that it shows."""
    at = text[0][2:].strip()
    lines = [line for line in text[1:] if line.strip()]
    for line in lines:
        if line[0] not in " -+":
            raise AssignmentError(f"{place}: a line of a change begins with ' ', - or +: {line!r}.")
    before = tuple(line[1:] for line in lines if line[0] in " -")
    after = tuple(line[1:] for line in lines if line[0] in " +")
    whole = at.startswith("replace ") or at == "add"
    if whole == bool(before):
        raise AssignmentError(
            f"{place}: '@@ {at}' must show lines of the reference, kept (' ') or removed "
            "('-'); '@@ replace NAME' and '@@ add' must show none."
        )
    return Change("" if at == "add" else at.removeprefix("replace ").strip(), before, after)


def _whole(path: Path) -> Variant:
    module = path.stem.partition("__")[0]
    source = path.read_text(encoding="utf-8")
    if not source.startswith(("# fails:", "# right\n")):
        raise AssignmentError(f"{path}: its first line must be '# fails: TEST' or '# right'.")
    try:
        sentence = ast.get_docstring(ast.parse(source)) or ""
    except SyntaxError:  # a submission may be that, too
        sentence = ""
    head = takewhile(lambda line: line.startswith("# "), source.splitlines())
    return _wrong(
        str(path), module, path.stem, sentence, _fields([line[2:] for line in head]), source
    )


# Applying


def applied(lines: Sequence[str], change: Change, place: str = "") -> list[str]:
    """The bare lines after a change.

    Raises:
        AssignmentError: there is no such definition, or not one place with these lines in it.
    """
    start, end = _extent(lines, change.place, place)
    if not change.before and not change.place:
        return [*lines, *change.after]
    if not change.before:
        return [*lines[:start], *change.after, *lines[end:]]
    size = len(change.before)
    starts = [
        at for at in range(start, end - size + 1) if tuple(lines[at : at + size]) == change.before
    ]
    if len(starts) != 1:
        where = f" in {change.place}" if change.place else ""
        first = next((x for x in change.before if x not in lines[start:end]), change.before[0])
        problem = "stand in more than one place" if starts else "are not there"
        raise AssignmentError(
            f"{place}: the lines of the edit {problem}{where} of the reference: {first.strip()!r}. "
            "Write the edit anew for the reference as it is now."
        )
    return [*lines[: starts[0]], *change.after, *lines[starts[0] + size :]]


def _extent(lines: Sequence[str], name: str, place: str) -> tuple[int, int]:
    """First line and the one after the last of a definition, decorators included."""
    if not name:
        return 0, len(lines)
    inside: list[ast.stmt] = ast.parse("\n".join(lines)).body
    node: ast.stmt | None = None
    for part in name.split("."):
        node = next((n for n in inside if isinstance(n, _DEFINITIONS) and n.name == part), None)
        if not isinstance(node, _DEFINITIONS):
            raise AssignmentError(f"{place}: the reference has no definition {name!r}.")
        inside = node.body
    assert isinstance(node, _DEFINITIONS) and node.end_lineno is not None
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return first - 1, node.end_lineno


def bare(source: str) -> list[str]:
    """The lines of code: without docstrings, comments and blank lines."""
    lines = source.splitlines()
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, *_DEFINITIONS)):
            continue
        alone = len(node.body) == 1 and not isinstance(node, ast.Module)
        if ast.get_docstring(node, clean=False) is not None and not alone:
            docstring = node.body[0]
            dropped |= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    in_strings = _inside_strings(tokens)  # a blank line in there belongs to the string
    return [
        line.rstrip() if number not in in_strings else line
        for number, line in enumerate(lines, 1)
        if number not in dropped and (line.strip() or number in in_strings)
    ]


def _inside_strings(tokens: Sequence[tokenize.TokenInfo]) -> set[int]:
    """Numbers of lines that begin or go on inside a string of several lines."""
    numbers: set[int] = set()
    begun = 0
    for token in tokens:
        kind = tokenize.tok_name[token.type]  # Python 3.12 cuts f-strings into several tokens
        if kind == "FSTRING_START":
            begun = token.start[0]
        if kind in ("STRING", "FSTRING_END"):
            first = begun if kind == "FSTRING_END" else token.start[0]
            if first != token.end[0]:
                numbers |= set(range(first, token.end[0] + 1))
    return numbers
