"""Which submissions are alike, by the shape of the code.

Names, comments, docstrings, layout and numbers are taken off; what is left is a list of tokens.
Whatever the release gave every student is taken out by its shingles (runs of five tokens). Pairs
that share many of the remaining shingles are compared by difflib. A match is a reason to read
both, never a verdict: short modules have few ways to be written.
"""

from __future__ import annotations

import difflib
import io
import keyword
import token
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

WIDTH = 5  # tokens in a shingle
MIN_TOKENS = 40
SKIPPED = (
    tokenize.COMMENT, tokenize.NL, token.NEWLINE, token.INDENT, token.DEDENT, token.ENDMARKER,
    tokenize.ENCODING,
)  # fmt: skip


@dataclass(frozen=True)
class Match:
    """Two authors whose module is alike; `ratio` is 1 where the shape is the same."""

    module: str
    first: str
    second: str
    ratio: float


@dataclass(frozen=True)
class Group:
    """Authors of one module of whom each is like another; `ratio` is the least of the matches."""

    module: str
    authors: tuple[str, ...]
    ratio: float


def groups(found: Iterable[Match]) -> list[Group]:
    """Matches put together: twenty who copied from one are one group, not 210 pairs."""
    members: dict[str, list[tuple[set[str], float]]] = {}
    for match in found:
        authors, ratio = {match.first, match.second}, match.ratio
        apart = []
        for others, lowest in members.get(match.module, []):
            if others & authors:
                authors, ratio = authors | others, min(ratio, lowest)
            else:
                apart.append((others, lowest))
        members[match.module] = [*apart, (authors, ratio)]
    listed = [
        Group(module, tuple(sorted(authors)), ratio)
        for module, each in members.items()
        for authors, ratio in each
    ]
    return sorted(listed, key=lambda group: (-group.ratio, group.module, group.authors))


@dataclass(frozen=True)
class _Shape:
    author: str
    tokens: tuple[str, ...]
    shingles: frozenset[tuple[str, ...]]


def shape(source: str) -> tuple[str, ...]:
    """The normalised tokens of `source`; none where it can't be read as Python.

    >>> shape("total = total + x  # add") == shape("s = s + value")
    True
    """
    found: list[str] = []
    fresh_line = True
    try:
        for each in tokenize.generate_tokens(io.StringIO(source).readline):
            if each.type == token.STRING and fresh_line:
                continue  # a docstring
            if each.type not in SKIPPED:
                found.append(_normal(each))
            if each.type != tokenize.COMMENT:
                fresh_line = each.type in SKIPPED
    except (tokenize.TokenError, SyntaxError):
        return ()
    return tuple(found)


def _normal(each: tokenize.TokenInfo) -> str:
    if each.type == token.NAME:
        # The names of MPI's calls are the scheme itself; a student's own names are not.
        if keyword.iskeyword(each.string) or each.string[:1].isupper():
            return each.string
        return "name"
    if each.type == token.NUMBER:
        return "number"
    return "text" if each.type == token.STRING else each.string


def _shingles(tokens: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(tokens[at : at + WIDTH] for at in range(len(tokens) - WIDTH + 1))


def matches(
    authors: Mapping[str, Mapping[str, str]],
    *,
    given: Mapping[str, str],
    threshold: float = 0.9,
) -> list[Match]:
    """Pairs of `authors` (name -> module -> source) that are alike, the most alike first.

    Args:
        authors: the students, and the shipped solutions under names of their own.
        given: module -> the source that everybody started from.
        threshold: the least difflib ratio that is reported.
    """
    found: list[Match] = []
    for module in sorted({name for modules in authors.values() for name in modules}):
        common = _shingles(shape(given.get(module, "")))
        shapes = []
        for author in sorted(authors):
            tokens = shape(authors[author].get(module, ""))
            own = _shingles(tokens) - common
            if len(tokens) >= MIN_TOKENS and len(own) >= WIDTH:
                shapes.append(_Shape(author, tokens, own))
        for first, second in combinations(shapes, 2):
            ratio = _ratio(first, second, threshold)
            if ratio >= threshold:
                found.append(Match(module, first.author, second.author, ratio))
    return sorted(found, key=lambda match: (-match.ratio, match.module, match.first, match.second))


def _ratio(first: _Shape, second: _Shape, threshold: float) -> float:
    shared = len(first.shingles & second.shingles)
    if shared < 0.5 * threshold * min(len(first.shingles), len(second.shingles)):
        return 0.0
    return difflib.SequenceMatcher(None, first.tokens, second.tokens, autojunk=False).ratio()
