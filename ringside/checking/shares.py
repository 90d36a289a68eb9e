"""A test over groups of cases, where each group earns its share of the points.

A ring that is wrong on worlds that aren't powers of two is still a ring. A test that stopped at its
first wrong case would give it nothing, and so would every other test that has such a case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from ringside.checking.assertions import Verdict

T = TypeVar("T")
RIGHT_BESIDE = " Right in this test: "  # what a sentence ends with, before names of groups


def check_shares(
    entries: Iterable[tuple[str, T]],
    check: Callable[[T], object],
    weights: Mapping[str, float],
    nothing_alone: Collection[str] = (),
) -> None:
    """Check every entry; each group of entries that fails takes its share of the points.

    Of a group that has failed, no further entry is tried.

    Args:
        entries: each with the name of its group, as a sentence can end: "lengths that p divides".
        check: raises ``Verdict`` where an entry fails.
        weights: of the groups.
        nothing_alone: groups that earn only where another one does: one rank alone, or no elements,
            shows nothing of a program.

    Raises:
        Verdict: the first that failed, with the share of the groups that pass.
    """
    verdicts: dict[str, Verdict] = {}
    right: dict[str, float] = {}  # the part of each group's points that is earned so far
    for name, entry in entries:
        if right.setdefault(name, 1.0) == 0.0:
            continue
        try:
            check(entry)
        except Verdict as verdict:
            verdicts.setdefault(name, verdict)
            right[name] = min(right[name], verdict.fraction)
    if not verdicts:
        return
    earned = sum(weights[name] * part for name, part in right.items())
    first = next(iter(verdicts.values()))
    passed = [name for name in right if name not in verdicts]
    if passed:
        end = "" if first.sentence.endswith((".", "?")) else "."  # it may end in an error's message
        first.sentence += f"{end}{RIGHT_BESIDE}{_listed(passed)}."
    if not any(part for name, part in right.items() if name not in nothing_alone):
        earned = 0.0
    first.fraction = earned / sum(weights[name] for name in right)
    raise first


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
