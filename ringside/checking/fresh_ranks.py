"""Whether a test fails by what the module kept from earlier calls.

Ranks live on between tests, so a module that keeps something (a global, a default argument, an
attribute of a function) fails tests that have nothing to do with it. A failed test is therefore
run once more, each of its calls on ranks that have made no other (real ranks never have)::

    fails again       the failure is the test's own
    right this time   something was kept: the first such test says so and earns nothing, the
                      others earn what they earn on fresh ranks
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ringside.checking.assertions import Verdict

KEPT = (
    "right on ranks that have made no other call, wrong after the calls of earlier tests: the "
    "module keeps something from one call to the next (a global, a default argument, an attribute "
    "of a function or a class). There: {sentence}"
)
_ENOUGH = 3  # failures that were the tests' own: a module that keeps something shows it sooner


def arguments_of(item: pytest.Item) -> tuple[str, ...]:
    """The fixtures that a test takes, by name; pytest has no public name for them."""
    names: tuple[str, ...] = item._fixtureinfo.argnames  # type: ignore[attr-defined]
    return names


def run_again(item: pytest.Item, rng: np.random.Generator) -> None:
    """Run a test once more with the fixtures that it had, but for its random numbers.

    Args:
        rng: the same numbers as at first, from their beginning.
    """
    fixtures = {name: item.funcargs[name] for name in arguments_of(item)}  # type: ignore[attr-defined]
    if "rng" in fixtures:
        fixtures["rng"] = rng
    item.obj(**fixtures)  # type: ignore[attr-defined]


class FreshRanks:
    """Decides for the tests of one module, one after another."""

    def __init__(self) -> None:
        self._own = 0
        self._kept = False

    def decide(self, verdict: Verdict, again: Callable[[], None]) -> Verdict | None:
        """The verdict that counts; None if the test is right on fresh ranks, and state was told.

        Args:
            verdict: of the test on ranks that have made other calls before.
            again: runs the same test, with the same inputs, each call on fresh ranks.
        """
        if verdict.on_real_ranks or (self._own >= _ENOUGH and not self._kept):
            return verdict
        better: Verdict | None = None
        try:
            again()
        except Verdict as fresh:
            if fresh.fraction <= verdict.fraction:
                self._own += 1
                return verdict
            better = fresh
        except Exception:  # what came back can't be judged; the first verdict can
            return verdict
        if self._kept:
            return better
        self._kept = True
        return Verdict(KEPT.format(sentence=verdict.sentence), detail=verdict.detail)
