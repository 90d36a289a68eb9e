"""The median of measured ratios, how sure it is, and the credit that it earns.

The interval of a median needs no assumption on how times are spread: of n independent values the
k-th smallest and the k-th largest enclose the true median unless fewer than k of them fall on one
side of it, and each falls on either side with probability 1/2::

    confidence = 1 - 2 * sum_{i < k} C(n, i) / 2**n

Source: Conover, Practical Nonparametric Statistics, 3rd edition, section 3.2.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autograder.course.assignment import Band

__all__ = ["Interval", "credit", "median_interval"]


@dataclass(frozen=True)
class Interval:
    """A median between bounds that hold it with at least the confidence asked for."""

    median: float
    low: float
    high: float
    confidence: float


def median_interval(values: Sequence[float], confidence: float) -> Interval:
    """The narrowest interval from the k-th smallest to the k-th largest that is sure enough.

    Where even the extremes are not sure enough, they are taken, and their confidence is told.

    >>> median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95)
    Interval(median=3.5, low=1.0, high=6.0, confidence=0.96875)

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a median needs at least one value")
    best = 0
    # `best` counts from 0 and k from 1, so the next narrower interval is that of k = best + 2.
    while best + 1 < len(ordered) / 2 and _confidence(len(ordered), best + 2) >= confidence:
        best += 1
    return Interval(
        statistics.median(ordered), ordered[best], ordered[-1 - best],
        _confidence(len(ordered), best + 1),
    )  # fmt: skip


def _confidence(count: int, k: int) -> float:
    """That the k-th smallest and the k-th largest of ``count`` values enclose the median."""
    return 1.0 - 2 * sum(math.comb(count, i) for i in range(k)) / float(2**count)


def credit(interval: Interval, bands: Sequence[Band]) -> tuple[float, str]:
    """The credit, 0 to 1, and a sentence where the interval does not decide.

    An interval that straddles a bound has the better side of it: the doubt is the machine's.
    """
    best, worst = _at(interval.low, bands), _at(interval.high, bands)
    if best == worst:
        return best, ""
    bound = max(band.ratio for band in bands if interval.low <= band.ratio < interval.high)
    return best, f"The interval straddles {bound:g}, so the better band counts."


def _at(ratio: float, bands: Sequence[Band]) -> float:
    return max((band.credit for band in bands if ratio <= band.ratio), default=0.0)
