"""The reference solutions of a14: examples of docstrings and exam, and typed lines."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from ringside.commands import cli
from solutions.a14_experts.hidden.oracle import examples
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a14_experts"
exchange_case = examples.exchange_cases.exchange_case
node_case = examples.node_cases.node_case
moe_case = examples.moe_cases.moe_case


@pytest.fixture
def module(monkeypatch):
    """Import a module of the assignment by its name."""

    def of(name):
        monkeypatch.syspath_prepend(str(SOLUTION))
        for each in (name, "experts"):
            monkeypatch.delitem(sys.modules, each, raising=False)
        return __import__(name)

    yield of
    for name in ("route", "node_limited", "experts"):
        sys.modules.pop(name, None)


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


@pytest.mark.parametrize(
    "call",
    [
        exchange_case((4, 0, 5), 3, "one", k=1),
        exchange_case((4, 3), 4).via("exchange_dispatched"),
        exchange_case((4, 3), 4).via("exchange_twice"),
        node_case((3, 4, 2, 5), 4, 2),
        moe_case((4, 3), 4),
    ],
    ids=lambda call: call.line.split()[2],
)
def test_typed_lines_are_right(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)


def test_a_wrong_bound_is_told(capsys):
    case = exchange_case((4, 3), 4)
    words = [*shlex.split(case.reproduce)[1:], "--check", "sent=0:1:10"]
    words[1] = str(SOLUTION / words[1])
    where = words.index("--")
    words = words[:where] + words[-2:] + words[where:-2]
    assert cli.main(words) != 0
    assert "rank 0 sent" in capsys.readouterr().out
