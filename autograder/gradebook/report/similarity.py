"""Which submissions are alike, by the shape of the code.

Names, comments, docstrings, layout, imports and numbers are taken off, and functions and classes
are put in an order of their own; what is left is a list of tokens. Whatever the release gave every
student is taken out by its shingles (runs of five tokens). RapidFuzz then finds the pairs of
token lists that differ in few insertions and deletions (``Indel.normalized_similarity``).

How sure is that? 125 modules were written from the docstrings alone, and compared with the shipped
solution and the right forms of their assignment (659 pairs). All 375 shipped modules were copied in
disguise, by a program (tests/autograder/gradebook/disguise.py). Found are:

    alike by at least                                      80 %    85 %    90 %    95 %
    independent modules, like the nearest shipped form    2.4 %   0.8 %   0.8 %     0 %
    independent pairs                                     1.1 %   0.5 %  0.15 %     0 %
    copies: other names, layout, comments                 100 %   100 %   100 %   100 %
    copies: also functions and assignments reordered      95 %    93 %    88 %    60 %
    copies: also dead statements, `x += y` written out    89 %    84 %    67 %    27 %
    copies: also loops, conditions, returns rewritten     82 %    71 %    39 %    11 %

The one independent module above 85 % writes two autograd functions, whose form PyTorch dictates.
So a match with what is shipped counts from 85 %. Two students are compared with each other in many
more pairs (4,950 in a class of 100), so theirs counts from 90 %, and some will be there by chance.
A match is a reason to read both, and no proof.
"""

from __future__ import annotations

import ast
import io
import keyword
import token
import tokenize
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Indel

WIDTH = 5  # tokens in a shingle
MIN_TOKENS = 25  # of a student's own; with fewer everybody is alike
SHIPPED, CLASSMATES = 0.85, 0.9  # the least likeness that is told
NEARLY = 0.95  # no independent module was as like what is shipped
NO_PROOF = (
    "short modules have few ways to be written. Of 125 modules that were written independently, "
    "1 was 85 % or more like a shipped solution, and none 95 %. Read both before you ask anybody."
)
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

    @property
    def sure(self) -> str:
        """What the likeness is worth as a sign; see the table at the top of this file."""
        if self.ratio == 1:
            return "the same, but for names, layout, numbers"
        if self.ratio >= NEARLY:
            return "nearly the same: rarely by chance"
        return "alike: often a copy, sometimes by chance"


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
        for module, clusters in members.items()
        for authors, ratio in clusters
    ]
    return sorted(listed, key=lambda group: (-group.ratio, group.module, group.authors))


def shape(source: str) -> tuple[str, ...]:
    """The normalised tokens of `source`; none where it can't be read as Python.

    >>> shape("total = total + x  # add") == shape("s = s + value")
    True
    >>> shape("def f(): pass\\ndef g(x): pass") == shape("def a(b): pass\\ndef c(): pass")
    True
    """
    return tuple(symbol for part in sorted(_statements(source)) for symbol in part)


def _statements(source: str) -> list[list[str]]:
    """The tokens of each statement at the top level (a whole function is one), imports left out."""
    statements: list[list[str]] = [[]]
    depth, fresh_line = 0, True
    try:
        for tok in tokenize.generate_tokens(io.StringIO(_one_layout(source)).readline):
            depth += (tok.type == token.INDENT) - (tok.type == token.DEDENT)
            if tok.type == token.STRING and fresh_line:
                continue  # a docstring
            if tok.type not in SKIPPED:
                if fresh_line and depth == 0:
                    statements.append([])
                statements[-1].append(_normal(tok, statements[-1][-1] if statements[-1] else ""))
            if tok.type != tokenize.COMMENT:
                fresh_line = tok.type in SKIPPED
    except (tokenize.TokenError, SyntaxError):
        return []
    return [part for part in statements if part and part[0] not in ("import", "from")]


def _one_layout(source: str) -> str:
    """The source as Python itself would write it; empty where the compiler can't read it.

    What it can't read, ``tokenize`` may take hours for.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            return ast.unparse(ast.parse(source))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""


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
    mask = np.ones(len(tokens), bool)
    for at in range(len(tokens) - WIDTH + 1):
        if tokens[at : at + WIDTH] in given:
            mask[at : at + WIDTH] = False
    return tuple(symbol for symbol, is_own in zip(tokens, mask, strict=True) if is_own)


def matches(
    authors: Mapping[str, Mapping[str, str]],
    *,
    given: Mapping[str, str],
    threshold: float = CLASSMATES,
) -> list[Match]:
    """Pairs of `authors` (name -> module -> source) that are alike, the most alike first.

    Args:
        authors: the students, and the shipped solutions under names of their own.
        given: module -> the source that everybody started from.
        threshold: the least similarity that is reported; 1 is the same shape.
    """
    pairs: list[Match] = []
    for module in sorted({name for modules in authors.values() for name in modules}):
        common = _shingles(shape(given.get(module, "")))
        who: dict[tuple[str, ...], list[str]] = {}
        for author in sorted(authors):
            tokens = _own(shape(authors[author].get(module, "")), common)
            if len(tokens) >= MIN_TOKENS:
                who.setdefault(tokens, []).append(author)
        pairs += _matches(module, who, threshold)
    return sorted(pairs, key=lambda match: (-match.ratio, match.module, match.first, match.second))


def telling(found: Iterable[Match], known: Collection[str]) -> list[Match]:
    """The matches that are told: between students, and of each with the nearest known source.

    Args:
        found: the most alike first, from the threshold `SHIPPED` on.
        known: the authors who are no students: what is shipped, and earlier years.
    """
    selection, nearest = [], set()
    for match in found:
        students = {match.first, match.second} - set(known)
        if len(students) == 2 and match.ratio >= CLASSMATES:
            selection.append(match)
        elif len(students) == 1 and (key := (match.module, *students)) not in nearest:
            nearest.add(key)
            selection.append(match)
    return selection


def _matches(
    module: str, who: Mapping[tuple[str, ...], Sequence[str]], threshold: float
) -> list[Match]:
    """The pairs among the authors of each shape, and among those of two that are alike."""
    shapes = list(who)
    # RapidFuzz compares characters, so each kind of token gets one.
    letters = {symbol: chr(at) for at, symbol in enumerate(sorted({t for s in shapes for t in s}))}
    texts = ["".join(letters[symbol] for symbol in tokens) for tokens in shapes]
    table = process.cdist(
        texts, texts, scorer=Indel.normalized_similarity, score_cutoff=threshold, dtype=np.float32
    )
    pairs = []
    # cdist writes 0 below the cutoff. On the diagonal are authors of one and the same shape.
    for first, second in zip(*np.nonzero(np.triu(table)), strict=True):
        ratio = 1.0 if first == second else float(table[first, second])
        for at, author in enumerate(who[shapes[first]]):
            others = who[shapes[first]][at + 1 :] if first == second else who[shapes[second]]
            pairs += [
                Match(module, min(author, other), max(author, other), ratio) for other in others
            ]
    return pairs
