"""Which submissions are alike, by the shape of the code.

Names, comments, docstrings, layout, imports and numbers are taken off, and functions and classes
are put in an order of their own; what is left is a list of tokens. Whatever the release gave every
student is taken out by its shingles (runs of five tokens). RapidFuzz then finds the pairs of
token lists that differ in few insertions and deletions (``Indel.normalized_similarity``). A match
is a reason to read both, never a verdict: short modules have few ways to be written.

Tried on 675 disguised copies of right modules (renamed, reordered, other constants, comments,
rewritten loops, dead statements, all at once) against 464 pairs of right modules that differ, at
the threshold where 5 % of those pairs match: this finds 90 % of the copies, copydetect 0.5
(winnowing over pygments' tokens) 47 %, or 65 % with shorter k-grams, and not the same ones in
each run, since it hashes by Python's salted ``hash``. 300 students, seven modules each: 3 s.
"""

from __future__ import annotations

import ast
import io
import keyword
import token
import tokenize
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Indel

WIDTH = 5  # tokens in a shingle
MIN_TOKENS = 25  # of a student's own; with fewer everybody is alike
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
class Lookalikes:
    """Authors of one module of whom each is like another; `ratio` is the least of the matches."""

    module: str
    authors: tuple[str, ...]
    ratio: float


def groups(found: Iterable[Match]) -> list[Lookalikes]:
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
        Lookalikes(module, tuple(sorted(authors)), ratio)
        for module, each in members.items()
        for authors, ratio in each
    ]
    return sorted(listed, key=lambda group: (-group.ratio, group.module, group.authors))


def shape(source: str) -> tuple[str, ...]:
    """The normalised tokens of `source`; none where it can't be read as Python.

    >>> shape("total = total + x  # add") == shape("s = s + value")
    True
    >>> shape("def f(): pass\\ndef g(x): pass") == shape("def a(b): pass\\ndef c(): pass")
    True
    """
    return tuple(each for part in sorted(_statements(source)) for each in part)


def _statements(source: str) -> list[list[str]]:
    """The tokens of each statement at the top level (a whole function is one), imports left out."""
    found: list[list[str]] = [[]]
    depth, fresh_line = 0, True
    if not _is_python(source):
        return []
    try:
        for each in tokenize.generate_tokens(io.StringIO(source).readline):
            depth += (each.type == token.INDENT) - (each.type == token.DEDENT)
            if each.type == token.STRING and fresh_line:
                continue  # a docstring
            if each.type not in SKIPPED:
                if fresh_line and depth == 0:
                    found.append([])
                found[-1].append(_normal(each, found[-1][-1] if found[-1] else ""))
            if each.type != tokenize.COMMENT:
                fresh_line = each.type in SKIPPED
    except (tokenize.TokenError, SyntaxError):
        return []
    return [part for part in found if part and part[0] not in ("import", "from")]


def _is_python(source: str) -> bool:
    """Whether the compiler can read it; what it can't, ``tokenize`` may take hours for."""
    try:
        with warnings.catch_warnings(action="ignore"):
            ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _normal(each: tokenize.TokenInfo, before: str) -> str:
    if each.type == token.NAME:
        # What is called on a communicator or a library is the scheme itself; other names are not.
        return (
            each.string
            if keyword.iskeyword(each.string) or (before == "." and each.string[:1].isupper())
            else "name"
        )
    if each.type == token.NUMBER:
        return "number"
    return "text" if each.type == token.STRING else each.string


def _shingles(tokens: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(tokens[at : at + WIDTH] for at in range(len(tokens) - WIDTH + 1))


def _own(tokens: tuple[str, ...], given: frozenset[tuple[str, ...]]) -> tuple[str, ...]:
    """`tokens` without the runs that everybody was given."""
    kept = np.ones(len(tokens), bool)
    for at in range(len(tokens) - WIDTH + 1):
        if tokens[at : at + WIDTH] in given:
            kept[at : at + WIDTH] = False
    return tuple(each for each, own in zip(tokens, kept, strict=True) if own)


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
        threshold: the least similarity that is reported; 1 is the same shape.
    """
    found: list[Match] = []
    for module in sorted({name for modules in authors.values() for name in modules}):
        common = _shingles(shape(given.get(module, "")))
        who: dict[tuple[str, ...], list[str]] = {}
        for author in sorted(authors):
            own = _own(shape(authors[author].get(module, "")), common)
            if len(own) >= MIN_TOKENS:
                who.setdefault(own, []).append(author)
        found += _matches(module, who, threshold)
    return sorted(found, key=lambda match: (-match.ratio, match.module, match.first, match.second))


def _matches(
    module: str, who: Mapping[tuple[str, ...], Sequence[str]], threshold: float
) -> list[Match]:
    """The pairs among the authors of each shape, and among those of two that are alike."""
    shapes = list(who)
    letters = {each: chr(at) for at, each in enumerate(sorted({t for s in shapes for t in s}))}
    words = ["".join(letters[each] for each in tokens) for tokens in shapes]
    table = process.cdist(
        words, words, scorer=Indel.normalized_similarity, score_cutoff=threshold, dtype=np.float32
    )
    found = []
    for first, second in zip(*np.nonzero(np.triu(table)), strict=True):
        ratio = 1.0 if first == second else float(table[first, second])
        for at, author in enumerate(who[shapes[first]]):
            others = who[shapes[first]][at + 1 :] if first == second else who[shapes[second]]
            found += [
                Match(module, min(author, other), max(author, other), ratio) for other in others
            ]
    return found
