"""What the kit counts of a program on any device: operators as its clock sees them, and memory."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from ringside.network.link import Link
from ringside.pytorch.counting import Meter


class Operators:
    """Stands where a rank's link stands, and keeps what the meter reports to it."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, float, float, float]] = Counter()

    def work(self, flops: float, nbytes: float, moved_bytes: float, phase: str) -> None:
        """One operator."""
        self.counts[phase, flops, nbytes, moved_bytes] += 1

    @property
    def flop(self) -> float:
        """Of all."""
        return sum(count * flops for (_, flops, _, _), count in self.counts.items())

    def rows(self) -> list[list[Any]]:
        """Alike ones together: phase, FLOPs, bytes, moved bytes, how many."""
        return [[*key, count] for key, count in sorted(self.counts.items())]


def meter(operators: Operators) -> Meter:
    """The kit's meter, to be entered."""
    return Meter(cast(Link, operators))
