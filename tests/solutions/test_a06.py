"""The reference solutions of a06: against closed forms, on the network, and typed lines."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.checking import buffered
from solutions.a06_asynchrony import cases
from solutions.a06_asynchrony.cases import refusal_call, server_call
from solutions.a06_asynchrony.hidden import oracle
from solutions.a06_asynchrony.hidden.oracle import examples
from solutions.a06_asynchrony.server_problem import Problem, seed_apart, trained
from tests.solutions import typed_line

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


def test_no_gradient_lags_more_than_the_notebooks_bound():
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
    typed_line.assert_runs(call, SOLUTION, capsys)


SHAPES = ((3, 4), (4,))


# -- local_sgd -------------------------------------------------------------------------------------


def test_local_sgd_of_period_1_is_data_parallel_sgd():
    case = cases.local_sgd_case(4, 6, 1, SHAPES, np.random.default_rng(1))
    serial = examples.local_sgd_serial(*case.inputs(), case.num_steps, case.period)
    for a, b in zip(serial, oracle.data_parallel(case), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def test_local_sgd_takes_the_bytes_and_the_time_of_its_closed_forms(session):
    machine = Machine.load("textbook,flop_per_s=1e9")
    for p, num_steps, period in ((2, 8, 3), (5, 6, 2), (8, 3, 4)):
        case = cases.local_sgd_case(p, num_steps, period, SHAPES, np.random.default_rng(p))
        result = session.call(
            "callers:local_sgd_trained", p, case.arguments_of_ranks(), machine=machine
        ).raise_for_error()
        assert [record.nbytes for record in result.collectives] == [case.nbytes] * case.rounds
        bound_s = oracle.local_sgd_s(case, machine)  # the shards of 16 elements aren't all alike
        assert 0.98 * bound_s < result.makespan_s <= 1.001 * bound_s
        examples.assert_averages(result, case, case.rounds, oracle.local_sgd_bytes(case))


def test_local_sgd_ends_where_the_notebooks_formula_says(session):
    curvatures, targets, lr, period = np.array([1.0, 9.0]), np.array([0.0, 1.0]), 0.05, 10
    rows = [
        ([np.zeros(1)], [np.array([a])], [[np.array([c])]], 1000, period, lr)
        for a, c in zip(curvatures, targets, strict=True)
    ]
    result = session.call("callers:local_sgd_trained", 2, rows).raise_for_error()
    passed = 1 - (1 - lr * curvatures) ** period
    assert result.values[0][0].item() == pytest.approx((passed @ targets) / passed.sum())


@pytest.mark.parametrize(
    "call",
    [
        cases.local_sgd_case(3, 5, 2, SHAPES, np.random.default_rng(2)),
        cases.local_sgd_case(2, 3, 2, SHAPES, np.random.default_rng(2), "float32", nan_of=1),
        cases.local_sgd_case(2, 0, 2, SHAPES, np.random.default_rng(2)).looked_at(),
        cases.local_sgd_refusal(3, 0),
    ],
    ids=str,
)
def test_a_line_of_local_sgd_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)


# -- gossip ----------------------------------------------------------------------------------------


def test_graphs_are_symmetric_and_their_weights_doubly_stochastic():
    rng = np.random.default_rng(3)
    for graph in ("ring", "wheel", "random", "apart", "line"):
        for p in (3, 4, 9):
            _, neighbours, weights = cases.gossip_inputs(p, graph, (1,), int(rng.integers(99)))
            matrix = cases.mixing_matrix(neighbours, weights)
            np.testing.assert_array_equal(matrix, matrix.T)
            np.testing.assert_allclose(matrix.sum(axis=0), 1)
            assert matrix.min() >= 0 and np.diag(matrix).min() > 0


def test_the_gap_of_a_ring_is_the_closed_form():
    for p in (3, 8, 33):
        matrix = cases.mixing_matrix(cases.ring(p), cases.metropolis(cases.ring(p)))
        wave, eigenvalue = oracle.slowest_wave(p)
        np.testing.assert_allclose(matrix @ wave, eigenvalue * wave, atol=1e-14)
        assert cases.second_eigenvalue(matrix) == pytest.approx(abs(eigenvalue))


def test_gossip_is_a_power_of_the_matrix_within_its_closed_form(session):
    machine = buffered()
    for p, graph, num_rounds in ((6, "ring", 5), (9, "wheel", 3), (7, "random", 4)):
        case = cases.gossip_case(p, graph, num_rounds, (4,), np.random.default_rng(p))
        result = session.call("gossip:average", p, case.arguments_of_ranks(), machine=machine)
        wanted = examples.gossip_serial(*case.inputs(), num_rounds)
        np.testing.assert_allclose(result.raise_for_error().values, wanted, rtol=0, atol=1e-13)
        assert result.makespan_s <= oracle.gossip_s(case, machine)
        examples.assert_gossip(result, case, case.neighbours)


@pytest.mark.parametrize(
    "call",
    [
        cases.gossip_case(4, "wheel", 2, (3,), np.random.default_rng(2)),
        cases.gossip_case(3, "ring", 2, (), np.random.default_rng(2), "float32", nan_of=1),
        cases.gossip_case(4, "apart", 1, (2, 2), np.random.default_rng(2)).looked_at(),
        cases.gossip_refusal(["you", "you"], [0.1, 0.1], 2),
    ],
    ids=str,
)
def test_a_line_of_gossip_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)
