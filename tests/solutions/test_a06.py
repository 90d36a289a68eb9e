"""The references of a06: against closed forms, and their times on the network."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.checking import case_files
from ringside.checking.suite import called
from solutions.a06_asynchrony.given import graphs
from solutions.a06_asynchrony.given.server_problem import Problem, trained

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a06_asynchrony"
TEXTBOOK = Machine.load("textbook")
SHAPES = ((3, 4), (4,))
SLOW = "name=slow wire,alpha_s=0.0001,beta_s_per_byte=1e-06"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


def right_run(session, case):
    run = called(session, case)
    case.check(run)
    return run


# -- server ----------------------------------------------------------------------------------------


def test_the_drawing_of_the_waiting_by_hand():
    """Two workers, 6 steps of 1 ms and 2 of 3 ms; when the first one ends."""
    problem = Problem(1, [6, 2], [1, 3], 0)
    problem.durations_s = [np.full(6, 1e-3), np.full(2, 3e-3)]
    free = TEXTBOOK.with_(alpha_s=0.0, beta_s_per_byte=0.0)
    for staleness, end_s in ((None, 6e-3), (0, 10e-3), (1, 9e-3), (3, 7e-3), (4, 6e-3)):
        assert trained(problem, staleness, free).end_s == pytest.approx(end_s), staleness


def test_synchronous_training_in_one_process_is_synchronous_sgd():
    problem = Problem(5, [4] * 3, [2, 3, 4], 1)
    weights = problem.weights
    for step in range(4):
        gradients = [problem.gradient(worker)(weights, step) for worker in range(3)]
        weights = problem.update(weights, np.mean(gradients, axis=0))
    np.testing.assert_allclose(trained(problem, 0, TEXTBOOK).weights, weights, rtol=1e-13)


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


def test_the_reference_trains_in_the_time_of_one_process(session, cases):
    for staleness in (None, 0, 1, 3):
        case = cases["Training"](5, (3, 9, 0, 6), staleness, (9, 2, 1, 3))
        run = right_run(session, case)
        assert run.makespan_s == pytest.approx(case.training.end_s, rel=0.01)


def test_a_run_is_the_same_each_time_under_a_seed(session, cases):
    case = cases["Training"](4, (4,), 1, (2,), latencies=2)
    first, second = (called(session, case).raise_for_error() for _ in range(2))
    assert first.trace.ops == second.trace.ops
    np.testing.assert_array_equal(first.values[0]["weights"], second.values[0]["weights"])


# -- local_sgd -------------------------------------------------------------------------------------


def test_local_sgd_of_period_1_is_data_parallel_sgd(cases):
    case = cases["LocalSgd"](4, 6, 1, SHAPES)
    w, losses = case.params, [case.loss(rank) for rank in range(4)]
    for step in range(case.num_steps):
        for k in range(len(w)):
            gradients = [a[k] * (w[k] - c[step % len(c)][k]) for a, c in losses]
            w[k] = w[k] - case.lr * np.mean(gradients, axis=0)
    for a, b in zip(case.right()[0], w, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)


def test_local_sgd_takes_the_bytes_and_the_time_of_its_closed_forms(session, cases):
    for p, num_steps, period in ((2, 8, 3), (5, 6, 2), (8, 3, 4)):
        case = cases["LocalSgd"](p, num_steps, period, SHAPES, machine="textbook,flop_per_s=1e9")
        run = right_run(session, case)
        assert [record.nbytes for record in run.collectives] == [case.nbytes] * case.rounds
        # The shards of 16 elements aren't all alike.
        assert 0.98 * case.time_s < run.makespan_s <= 1.001 * case.time_s


def test_local_sgd_ends_where_the_notebooks_formula_says(session):
    curvatures, targets, lr, period = np.array([1.0, 9.0]), np.array([0.0, 1.0]), 0.05, 10
    rows = [
        ([np.zeros(1)], [np.array([a])], [[np.array([c])]], 1000, period, lr)
        for a, c in zip(curvatures, targets, strict=True)
    ]
    result = session.call("checks/inside.py:local_sgd_trained", 2, rows).raise_for_error()
    passed = 1 - (1 - lr * curvatures) ** period
    assert result.values[0][0].item() == pytest.approx((passed @ targets) / passed.sum())


# -- gossip ----------------------------------------------------------------------------------------


def test_graphs_are_symmetric_and_their_weights_doubly_stochastic(cases):
    for graph in ("ring", "wheel", "random", "even", "apart", "line"):
        for p in (3, 4, 9):
            matrix = graphs.mixing_matrix(*cases["Gossip"](p, graph, seed=p).edges)
            np.testing.assert_array_equal(matrix, matrix.T)
            np.testing.assert_allclose(matrix.sum(axis=0), 1)
            assert matrix.min() >= 0 and np.diag(matrix).min() > 0


def test_the_gap_of_a_ring_is_the_closed_form():
    for p in (3, 8, 33):
        ring = graphs.ring(p)
        matrix, angle = graphs.mixing_matrix(ring, graphs.metropolis(ring)), 2 * np.pi / p
        wave, eigenvalue = np.cos(angle * np.arange(p)), (1 + 2 * np.cos(angle)) / 3
        np.testing.assert_allclose(matrix @ wave, eigenvalue * wave, atol=1e-14)
        assert graphs.second_eigenvalue(matrix) == pytest.approx(abs(eigenvalue))


# -- diloco_torch ----------------------------------------------------------------------------------


def test_no_fragment_has_more_turns_than_the_docstring_allows(cases):
    for num_steps in range(40):
        for period in range(1, 12):
            for num_fragments in range(1, period + 1):
                case = cases["Diloco"](2, num_steps, period, num_fragments)
                turns = [case.turns(taken) for taken in range(1, num_steps + 1)]
                assert all(len(each) <= 1 for each in turns[:-1])
                for f in range(num_fragments):
                    count = sum(f in each for each in turns)
                    assert (num_steps > 0) <= count <= -(-num_steps // period)


def test_diloco_takes_the_time_of_its_closed_form(session, cases):
    case = cases["Diloco"](5, 9, 4, 2, step_s=1e-3, machine=SLOW)
    averages_s = sum(ring_s(n, 5) for n in case.averages)
    assert right_run(session, case).makespan_s == pytest.approx(9e-3 + averages_s, rel=0.02)


def ring_s(elements, p):
    return 2 * (p - 1) * (1e-4 + -(-elements // p) * 8 * 1e-6)


# -- compress_torch --------------------------------------------------------------------------------


def test_nothing_is_lost_over_many_calls(cases):
    case = cases["Compress"](3, (6, 9), 2, 12)
    given, answers = [case.gradients(rank) for rank in range(3)], case.right()
    means = np.sum([mean for mean, _ in answers[0]], axis=0)
    left = np.mean([calls[-1][1] for calls in answers], axis=0)
    np.testing.assert_allclose(means + left, np.sum(given, axis=(0, 1)) / 3, atol=1e-12)


def test_compress_sends_thin_matrices_in_the_time_of_its_closed_form(session, cases):
    case = cases["Compress"](5, (30, 20), 3, 2, machine=SLOW)
    run = right_run(session, case)
    assert [record.nbytes for record in run.collectives] == [30 * 3 * 8, 20 * 3 * 8] * 2
    call_s = sum(ring_s(n, 5) for n in case.lengths)
    assert run.makespan_s == pytest.approx(2 * call_s, rel=0.02)
