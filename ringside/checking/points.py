"""The mark of a test: what it is worth, and for what.

    points = points_of("ring")

    @points(12, "communication")
    def test_bytes_per_rank(ranks, rng):
        ...

A file whose tests are about several modules says it at each: ``@points(12, "values", "ring")``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest


def points(number: float, kind: str, module: str) -> pytest.MarkDecorator:
    """The mark of a test of ``module``.

    Args:
        number: what the test is worth, of 100 for a module.
        kind: what its points are for: "values", "communication", "schedule", "memory", "safety",
            "speed" or "reality".
    """
    return pytest.mark.points(number, kind=kind, module=module)


def points_of(module: str) -> Callable[[float, str], pytest.MarkDecorator]:
    """``points`` for a file whose tests are all about one module."""
    return partial(points, module=module)
