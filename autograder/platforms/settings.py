"""What the maker of an autograder tells the autograder in its container: ``platform.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autograder.course.assignment import Assignment
from ringside.checking.requirements import ALL_POINTS

__all__ = ["FILE", "Settings"]

FILE = "platform.json"


@dataclass(frozen=True)
class Settings:
    """The assignment and the course's rules, as they were when the autograder was made.

    Attributes:
        minutes: what the platform gives one submission.
        memory_mb: what the reference alone takes; in less, a right submission would lose points.
        reality: module -> points, of the suite's 100, of its tests on real ranks.
        visibility: when students see the tests; Gradescope's word.
        late: the rules of lateness, as ``submission.late.Policy`` takes them.
    """

    assignment: str
    minutes: float
    memory_mb: int
    reality: Mapping[str, float]
    visibility: str = "after_published"
    late: Mapping[str, float] = field(default_factory=dict)

    def points_of_real_ranks(self, plan: Assignment) -> float:
        """How many of the assignment's points are for tests on real ranks, extra modules aside."""
        shares = (self.reality.get(m.name, 0.0) * m.weight for m in plan.modules if not m.extra)
        return round(sum(shares) / ALL_POINTS, 4)

    def write(self, kit: Path) -> None:
        (kit / FILE).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, kit: Path) -> Settings:
        return cls(**json.loads((kit / FILE).read_text(encoding="utf-8")))
