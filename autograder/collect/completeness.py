"""Nobody gets lost between what was found and what is shown: each student is there once.

found before quarantine  =  outcomes  =  rows of a table, a report, an export
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ringside.errors import RingsideError

__all__ = ["RollError", "call"]


class RollError(RingsideError):
    """Students are missing from a result, or in it twice; the message names them."""


def call(found: Iterable[str], shown: Iterable[str], where: str) -> None:
    """Compare the students of a result with those who have handed in.

    Args:
        found: the students, before anything of theirs was read.
        shown: the students that the result has.
        where: the result in words, like "the graded class".

    Raises:
        RollError: they differ.
    """
    roll, there = Counter(found), Counter(shown)
    gaps = []
    if missing := sorted((roll - there).elements()):
        gaps.append(f"{', '.join(missing)} handed in and {_are(missing)} missing")
    if strangers := sorted((there - roll).elements()):
        gaps.append(f"{', '.join(strangers)} {_are(strangers)} there without a submission")
    if gaps:
        raise RollError(
            f"{where}: {'; '.join(gaps)}. This is a fault of the grader's, and nothing is written: "
            "please report it. What was graded is stored; other paths can be graded meanwhile."
        )


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
