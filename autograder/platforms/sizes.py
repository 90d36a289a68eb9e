"""Which container an assignment needs: the memory and CPU time of its reference, as measured.

``[container]`` of an assignment.toml holds what was measured;
``python -m tests.autograder.platforms.measure`` writes it.
A container is large enough if it has half as much memory again as the reference takes, and if a
submission of three times the reference's CPU time ends in its minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.course.assignment import Assignment

__all__ = ["CONTAINERS", "Advice", "Container", "advice", "table"]

SPARE_MEMORY = 1.5
SPARE_TIME = 3.0
MOST_MINUTES = 40.0
LEAST_MINUTES = 10.0  # the platforms' default


@dataclass(frozen=True)
class Container:
    """What Gradescope gives."""

    cpus: float
    memory_mb: int

    def __str__(self) -> str:
        memory = (
            f"{self.memory_mb / 1024:g} GB" if self.memory_mb >= 1024 else f"{self.memory_mb} MB"
        )
        return f"{self.cpus:g} CPU, {memory}"


CONTAINERS = (Container(0.5, 768), Container(1, 1536), Container(2, 3072), Container(4, 6144))


@dataclass(frozen=True)
class Advice:
    """What one assignment's reference takes, and what to choose for it."""

    name: str
    memory_mb: int
    cpu_s: float
    container: Container
    minutes: float

    @property
    def is_default(self) -> bool:
        return self.container == CONTAINERS[0] and self.minutes <= LEAST_MINUTES

    def __str__(self) -> str:
        chosen = f"{self.container}, {self.minutes:g} minutes"
        if not self.cpu_s:
            return f"{self.name}: nobody has measured it; choose {chosen}"
        takes = f"{self.name}: {self.memory_mb} MB, {self.cpu_s:g} s of CPU time"
        if self.is_default:
            return f"{takes}: the default container is enough ({chosen})"
        return f"{takes}: choose {chosen}"


def advice(plan: Assignment) -> Advice:
    """What to choose for an assignment; for one that nobody has measured, a large one."""
    need = plan.container
    if need is None:
        return Advice(plan.name, 0, 0.0, CONTAINERS[3], 20.0)
    large = [
        candidate
        for candidate in CONTAINERS
        if candidate.memory_mb >= SPARE_MEMORY * need.memory_mb
    ]
    container = (large or CONTAINERS[-1:])[0]
    minutes = SPARE_TIME * need.cpu_s / min(container.cpus, 1.0) / 60
    rounded = 5.0 * math.ceil(max(minutes, LEAST_MINUTES) / 5.0)
    return Advice(plan.name, need.memory_mb, need.cpu_s, container, min(rounded, MOST_MINUTES))


def table(plans: Iterable[Assignment]) -> str:
    """Those that were measured in Markdown, as docs/platforms.md has them."""
    lines = ["| assignment | memory | CPU time | container | minutes |", "|---|---|---|---|---|"]
    for one in (advice(plan) for plan in plans if plan.container):
        takes = f"{one.memory_mb} MB | {one.cpu_s:g} s"
        lines.append(f"| {one.name} | {takes} | {one.container} | {one.minutes:g} |")
    return "\n".join(lines) + "\n"
