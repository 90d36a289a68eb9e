"""The reference solutions of a10: the recursion by finite differences, drawings, closed forms."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.checking import Verdict
from ringside.factors import Factors
from solutions.a10_pipedream.hidden import stash_runs
from solutions.a10_pipedream.hidden.stash_runs import examples, stash_case
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a10_pipedream"
FREE = Machine("free", alpha_s=0.0, beta_s_per_byte=0.0)


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- stash -----------------------------------------------------------------------------------------


def output(params, x):
    """What a chain of stages makes of an input."""
    for own in params:
        for weight, bias in zip(own[::2], own[1::2], strict=True):
            x = np.tanh(x @ weight + bias)
    return x


@pytest.mark.parametrize(("vertical_sync", "delays"), [(False, [2, 1, 0]), (True, [2, 2, 2])])
def test_the_recursion_goes_along_the_gradient_where_the_versions_were(vertical_sync, delays):
    assert examples.lags(3, vertical_sync) == delays
    case = stash_case(3, 6, np.random.default_rng(2), vertical_sync=vertical_sync)
    params, inputs, targets, lr = case.inputs()
    history = [
        examples.delayed_descent(params, inputs[:t], targets[:t], lr, delays)[0] for t in range(7)
    ]
    for t, stage in itertools.product(range(6), range(3)):
        used = [
            [np.array(each) for each in history[max(0, t - delay)][s]]
            for s, delay in enumerate(delays)
        ]

        def loss(used=used, t=t):
            return 0.5 * ((output(used, inputs[t]) - targets[t]) ** 2).sum() / len(inputs[t])

        weight, step = used[stage][0], 1e-6
        around = []
        for sign in (1, -1):
            weight[0, 1] += sign * step
            around.append(loss())
            weight[0, 1] -= sign * step
        moved = history[t + 1][stage][0][0, 1] - history[t][stage][0][0, 1]
        assert moved == pytest.approx(-lr * (around[0] - around[1]) / (2 * step), abs=1e-9)


def test_the_order_of_passes_is_the_docstrings_drawing():
    drawn = ["F0 F1 F2 B0 F3 B1 F4 B2", "F0 F1 B0 F2 B1 F3 B2 F4", "F0 B0 F1 B1 F2 B2 F3 B3"]
    for stage, words in enumerate(drawn):
        assert examples.stash_passes(3, 9, stage)[:8] == words.split()
    assert examples.stash_passes(4, 4, 2) == ["F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"]
    assert examples.stash_passes(4, 2, 0) == ["F0", "F1", "B0", "B1"]
    assert examples.stash_passes(2, 0, 0) == []


def test_the_reference_takes_the_time_of_the_closed_form(session):
    rng, costs = np.random.default_rng(4), (1e-3, 2e-3)
    for p, count, vertical_sync in ((1, 3, False), (2, 5, True), (4, 2, False), (5, 9, True)):
        case = stash_case(p, count, rng, costs=costs, vertical_sync=vertical_sync)
        result = session.call(
            "callers:stash_trained", p, case.arguments_of_ranks(),
            machine=FREE, factors=Factors.drawn(rng),
        ).raise_for_error()  # fmt: skip
        stash_runs.check(result, case)
        examples.stash_assert_order(result, case)
        examples.stash_assert_sent(result, case)
        bound_s = (count + p - 1) * sum(costs)
        assert result.makespan_s == pytest.approx(bound_s)
        assert stash_runs.ideal(p, count, costs, 48, FREE) == pytest.approx(bound_s)


def test_the_reference_is_as_fast_as_the_ideal_on_a_wire(session):
    rng, costs = np.random.default_rng(4), (4e-6, 8e-6)
    machine = Machine("wire", alpha_s=2.5e-6, beta_s_per_byte=1e-8)
    case = stash_case(4, 8, rng, costs=costs, width=8, alike=True)
    arguments = case.arguments_of_ranks()
    result = session.call("callers:stash_trained", 4, arguments, machine=machine).raise_for_error()
    ideal_s = stash_runs.ideal(4, 8, costs, 8 * 2 * 8, machine)
    assert result.makespan_s == pytest.approx(ideal_s, rel=0.01)


def test_a_run_whose_stages_compute_in_another_order_is_seen(session):
    case = stash_case(2, 3, np.random.default_rng(1))
    result = session.call(
        "callers:stash_trained", 2, case.arguments_of_ranks(), factors=Factors(b"1" * 16)
    ).raise_for_error()
    result.trace.ops[0], result.trace.ops[1] = result.trace.ops[1], result.trace.ops[0]
    with pytest.raises(Verdict, match="stage 0 computed B0 as pass 1; it must be F1"):
        examples.stash_assert_order(result, case)


@pytest.mark.parametrize(
    "fields", [{}, {"vertical_sync": True}, {"calls": 2}, {"costs": (1e-3, 2e-3), "alike": True}]
)
def test_a_line_of_stash_runs_what_the_suite_ran(fields, capsys):
    case = stash_case(3, (2, 1, 3), np.random.default_rng(7), **fields)
    typed_line.assert_runs(case.asking("stash_order", "factors"), SOLUTION, capsys)
