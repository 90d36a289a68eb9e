"""The reference of a15: the numbers of its docstring."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a15_failures"
OURS = (
    *("checks", "checks.cases", "checks.cases_neighbour", "interval"),
    *("given", "given.model", "given.training"),
)


@pytest.fixture
def module(monkeypatch):
    """Import a module of the assignment by its name."""
    monkeypatch.syspath_prepend(str(SOLUTION))
    for name in OURS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in OURS:
        sys.modules.pop(name, None)


def test_bytes_of_the_docstring(module):
    case = module("checks.cases").Elastic(4, n=11, num_steps=1)
    assert case.nbytes(0) == 144 + 16


def test_the_gradient_is_that_of_the_loss(module):
    rng = np.random.default_rng(0)
    params, samples = rng.standard_normal(3), rng.standard_normal((5, 4))

    def loss(at):
        return ((samples[:, :-1] @ at - samples[:, -1]) ** 2).sum() / 2

    slopes = [(loss(params + d) - loss(params - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
    found = module("given.model").gradient(params, samples, 0, 0)
    np.testing.assert_allclose(found, slopes, rtol=1e-6)


def test_keepers_are_those_that_the_docstring_draws(module):
    case = module("checks.cases_neighbour").Copies(10, 2)
    assert [case.keeper(rank) for rank in range(10)] == [2, 3, 0, 1, 6, 7, 8, 9, 4, 5]
    assert [case.ward(case.keeper(rank)) for rank in range(10)] == list(range(10))


def test_the_examples_of_interval(module):
    interval = module("interval")
    assert interval.lost_share(1000, 30, 300, 10_000) == pytest.approx(0.1055, abs=5e-5)
    assert interval.best_interval(5, 15) == pytest.approx(9.167, abs=5e-4)
    assert interval.walk(100, 10, 30, [250], 400) == 310
