"""A test over cases of several kinds, where each kind earns its share of the points.

A ring that is wrong on worlds that aren't powers of two is still a ring. A test that stopped at its
first wrong case would give it nothing, and so would every other test that has such a case::

    @points(10, "communication")
    def test_bytes_per_rank(ranks, rng):
        def check(case):
            assert_bytes(seen(ranks, case), bound(case), case)

        check_kinds(cases, by_world, check)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ringside.checking.assertions import Case, Verdict

T = TypeVar("T")
_NO_POWER = "numbers of ranks that are no power of two"


def by_world(case: Case) -> str:
    """The kind of a case by its number of ranks.

    >>> by_world(Case("ring:all_reduce", 6, 10))
    'numbers of ranks that are no power of two'
    """
    power = case.world_size & (case.world_size - 1) == 0
    return "powers of two as numbers of ranks" if power else _NO_POWER


def by_length(case: Case) -> str:
    """The kind of a case by whether p divides its length.

    >>> by_length(Case("ring:all_reduce", 4, 10))
    'lengths that p does not divide'
    """
    even = case.n % case.world_size == 0
    return "lengths that p divides" if even else "lengths that p does not divide"


def check_kinds(
    cases: Iterable[T],
    kind: Callable[[T], str],
    check: Callable[[T], object],
    *,
    weights: Mapping[str, float] | None = None,
) -> None:
    """Check every case; each kind of cases that fails takes its share of the points.

    Of a kind that has failed, no further case is tried.

    Args:
        kind: names a case's kind, as a sentence can end: "lengths that p does not divide".
        check: raises ``Verdict`` where a case fails.
        weights: of the kinds, where they aren't alike; 1 for those that aren't named.

    Raises:
        Verdict: the first that failed, with the share of the kinds that pass.
    """
    verdicts: dict[str, Verdict] = {}
    right: dict[str, float] = {}  # the part of each kind's points that is earned so far
    for case in cases:
        name = kind(case)
        if right.setdefault(name, 1.0) == 0.0:
            continue
        try:
            check(case)
        except Verdict as verdict:
            verdicts.setdefault(name, verdict)
            right[name] = min(right[name], verdict.fraction)
    if not verdicts:
        return
    share = {name: (weights or {}).get(name, 1.0) for name in right}
    earned = sum(share[name] * part for name, part in right.items()) / sum(share.values())
    first = next(iter(verdicts.values()))
    passed = [name for name in right if name not in verdicts]
    if passed:
        sentence = first.sentence.removesuffix(".")
        first.sentence = f"{sentence}. Right in this test: {_listed(passed)}."
    first.fraction = earned
    raise first


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
