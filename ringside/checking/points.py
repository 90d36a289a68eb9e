"""The mark of a test: what it is worth, and for what.

    @points(12, "communication", "ring")
    def test_bytes_per_rank(ranks, rng):
        ...

A test of a ``Suite`` has it already.

One test of a module may be marked ``essential=True``: it asks whether the module is the scheme at
all, on one plain case (does each rank send its own messages, is the work split?). Where it fails,
the module earns at most a tenth of its points, however right its values are.
"""

from __future__ import annotations

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
