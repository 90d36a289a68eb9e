"""The mark of a test: what it is worth, and for what.

    points = points_of("ring")

    @points(12, "communication")
    def test_bytes_per_rank(ranks, rng):
        ...

A file whose tests are about several modules says it at each: ``@points(12, "values", "ring")``.

One test of a module may be marked ``essential=True``: it asks whether the module is the scheme at
all, on one plain case (does each rank send its own messages, is the work split?). Where it fails,
the module earns at most a tenth of its points, however right its values are.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest


def points(
    number: float, kind: str, module: str, *, essential: bool = False
) -> pytest.MarkDecorator:
    """The mark of a test of ``module``.

    Args:
        number: what the test is worth, of 100 for a module.
        kind: what its points are for: "values", "communication", "schedule", "memory", "safety",
            "speed" or "reality".
        essential: whether a module that fails it misses the point of the exercise.
    """
    return pytest.mark.points(number, kind=kind, module=module, essential=essential)


def points_of(module: str) -> Callable[..., pytest.MarkDecorator]:
    """``points`` for a file whose tests are all about one module."""

    def mark(number: float, kind: str, *, essential: bool = False) -> pytest.MarkDecorator:
        return points(number, kind, module, essential=essential)

    return mark
