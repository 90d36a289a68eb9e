"""The reference solutions of a06: against closed forms, on the network, and typed lines."""

import itertools
import shlex
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.commands import cli
from solutions.a06_asynchrony.cases import refusal_call, server_call
from solutions.a06_asynchrony.hidden.oracle import examples
from solutions.a06_asynchrony.server_problem import Problem, seed_apart, trained

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a06_asynchrony"
TEXTBOOK = Machine.load("textbook")


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- server ----------------------------------------------------------------------------------------


def test_the_drawing_of_the_waiting_by_hand():
    """Two workers, 6 steps of 1 ms and 2 of 3 ms; when the first one ends."""
    problem = Problem(1, [6, 2], [1, 3], 0)
    problem.durations_s = [np.full(6, 1e-3), np.full(2, 3e-3)]
    free = TEXTBOOK.with_(alpha_s=0.0, beta_s_per_byte=0.0)
    for staleness, end_s in ((None, 6e-3), (0, 10e-3), (1, 9e-3), (3, 7e-3), (4, 6e-3)):
        assert trained(problem, staleness, free).end_s == pytest.approx(end_s), staleness


def test_no_gradient_lags_more_than_the_docstrings_bound():
    rng = np.random.default_rng(3)
    for staleness, workers in itertools.product((0, 1, 2, 3), (2, 3, 5)):
        largest = 0
        for _ in range(40):
            steps = [int(each) for each in rng.integers(0, 9, size=workers)]
            paces = [float(each) for each in rng.integers(1, 12, size=workers)]
            problem = Problem(2, steps, paces, int(rng.integers(2**31)))
            done = trained(problem, staleness, TEXTBOOK)
            assert len(done.lags) == sum(steps)
            largest = max([largest, *done.lags])
        assert largest <= (2 * staleness + 1) * (workers - 1) * (staleness > 0)


def test_the_reference_trains_as_one_process_does_in_the_same_time(session):
    rng = np.random.default_rng(5)
    for staleness in (None, 0, 1, 3):
        steps, paces = [3, 9, 0, 6], [9, 2, 1, 3]
        seed = seed_apart(rng, 5, steps, paces, staleness, TEXTBOOK)
        given = (steps, paces, staleness, 5, seed)
        result = session.call("callers:server_training", 5, given).raise_for_error()
        right = trained(Problem(5, steps, paces, seed), staleness, TEXTBOOK)
        np.testing.assert_allclose(result.values[0]["weights"], right.weights, rtol=0, atol=1e-13)
        assert result.values[1:] == right.versions
        assert result.makespan_s == pytest.approx(right.end_s, rel=0.01)
        examples.assert_protocol(result, server_call(*given))


def test_a_run_is_the_same_each_time_under_a_seed(session):
    given = ([4, 4, 4], [2, 2, 2], 1, 3, 8)
    runs = [session.call("callers:server_training", 4, given, seed=2) for _ in range(2)]
    first, second = (each.raise_for_error() for each in runs)
    assert first.trace.ops == second.trace.ops
    np.testing.assert_array_equal(first.values[0]["weights"], second.values[0]["weights"])


@pytest.mark.parametrize(
    "call",
    [
        server_call([2, 3], [1, 2], 1, seed=3),
        server_call([2, 3], [4, 4], None, fixed=True),
        server_call([2, 3], [3, 5], 0, seed=3, through="scripted_workers", late=9),
        server_call([2, 3], [3, 5], 0, seed=3, through="scripted_server"),
        refusal_call(3, -1, -1),
    ],
    ids=str,
)
def test_a_line_of_the_server_runs_what_the_suite_ran(call, capsys):
    words = shlex.split(call.reproduce)[1:]
    words[1] = str(SOLUTION / words[1])
    assert cli.main(words) == 0
    assert "returned" in capsys.readouterr().out
