"""The reference solutions of a14: examples of docstrings and exam."""

from pathlib import Path

import numpy as np
import pytest

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a14_experts"
OURS = ("route", "node_limited", "given", "given.experts")


def test_route_gives_the_docstrings_example(module):
    route = module("route")
    assert route.capacity(100, 8, 2, 1.25) == 32
    found = route.route(np.array([[2.0, 1, 0], [2, 1, 3], [5, 4, 4]]), 2, 2)
    assert found.experts.tolist() == [[0, 1], [2, 0], [0, 1]]
    assert found.kept.tolist() == [[True, True], [True, True], [False, True]]
    np.testing.assert_allclose(found.weights[2], [0, 1 / (1 + np.e)])


def test_route_drops_what_the_exam_says(module):
    """Question 2: room for 3, and four tokens of expert 0 that find none."""
    choices = [0, 0, 1, 0, 2, 0, 0, 3, 1, 0, 2, 0]
    route = module("route")
    room = route.capacity(12, 4, 1, 1.0)
    found = route.route(np.eye(4)[choices], 1, room)
    assert room == 3
    assert np.flatnonzero(~found.kept[:, 0]).tolist() == [5, 6, 9, 11]


def test_balance_loss_of_the_exam(module):
    """Question 3."""
    route = module("route")
    scores = np.tile(np.log([0.4, 0.2, 0.2, 0.2]), (8, 1))
    experts = np.array([0, 0, 0, 0, 0, 1, 2, 3])[:, None]
    assert route.balance_loss(scores, experts) == pytest.approx(1.3)


def test_nodes_are_worth_their_best_scores(module):
    """The docstring's example, and question 7."""
    choose = module("node_limited").choose
    assert choose(np.array([[5.0, 0, 4, 3]]), 2, 2, 1).tolist() == [[2, 3]]
    scores = np.array([[9.0, 1, 1, 1, 6, 5, 0, 0, 0, 0, 0, 0]])
    assert choose(scores, 2, 3, 1).tolist() == [[4, 5]]
