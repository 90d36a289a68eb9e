"""The reference solutions of a12: against closed forms and torch, and typed lines."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from solutions.a12_hybrid import grid
from solutions.a12_hybrid.hidden.grid2d_oracle import examples, grid_cases, train2d_cases
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a12_hybrid"
ZARATAN = train2d_cases.train2d_miniature(Machine.load("zaratan"))
train2d_case = train2d_cases.train2d_case


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- grid ------------------------------------------------------------------------------------------


def test_the_drawing_of_the_docstring():
    ranks = grid.coordinates(12, grid_cases.DRAWN, grid_cases.DRAWN_ORDER)
    assert ranks[8] == {"tensor": 2, "data": 0, "pipe": 1}
    assert grid.groups(ranks, ["data", "tensor"])[0] == [0, 3, 1, 4, 2, 5]
    assert grid.groups(ranks, ["pipe"])[:2] == [[0, 6], [1, 7]]
    assert grid.neighbour(ranks, 5, "tensor", 1, True) == 3
    assert grid.neighbour(ranks, 5, "tensor", 1, False) is None


@pytest.mark.parametrize("order", list(itertools.permutations(grid_cases.DRAWN)))
def test_reference_and_oracle_of_grids_agree(order):
    ranks = grid.coordinates(12, grid_cases.DRAWN, order)
    assert ranks == grid_cases.grid_coordinates(grid_cases.DRAWN, order)
    for count in range(4):
        for axes in itertools.permutations(order, count):
            groups = grid.groups(ranks, axes)
            assert groups == grid_cases.grid_groups(ranks, axes)
            assert sorted(itertools.chain(*groups)) == list(range(12))


def stays_inside(sizes, order, inside, ranks_per_node):
    ranks = grid_cases.grid_coordinates(sizes, order)
    groups = grid_cases.grid_groups(ranks, inside)
    return all(len({rank // ranks_per_node for rank in group}) == 1 for group in groups)


def test_an_order_that_keeps_axes_inside_nodes_is_found_wherever_there_is_one():
    sizes = {"a": 2, "b": 3, "c": 2}
    chosen = [list(each) for count in range(4) for each in itertools.combinations(sizes, count)]
    for inside, nodes in itertools.product(chosen, range(1, 14)):
        orders = itertools.permutations(sizes)
        if any(stays_inside(sizes, order, inside, nodes) for order in orders):
            assert stays_inside(sizes, grid.place(12, sizes, inside, nodes), inside, nodes)
        else:
            with pytest.raises(ValueError, match="would cut"):
                grid.place(12, sizes, inside, nodes)


def test_a_line_of_grid_runs_what_the_suite_ran(capsys):
    sizes, order = {"data": 3, "tensor": 2}, ["tensor", "data"]
    for axes in (["tensor"], ["data", "tensor"]):
        typed_line.assert_runs(grid_cases.grid_sum_case(sizes, order, axes), SOLUTION, capsys)


# -- train2d ---------------------------------------------------------------------------------------


def test_the_docstrings_example_in_numbers():
    case = train2d_case((2, 3), (8, 6, 4), 5, np.random.default_rng(1))
    assert case.gathered(0) == 5 * (3 + 2) * 8
    assert case.scattered(0) == 5 * 3 * 8
    assert case.own(0) == 27 + 14
    assert case.summed(0) == 56 * 8


def test_the_serial_oracle_is_torchs_sgd():
    torch = pytest.importorskip("torch")
    case = train2d_case((2, 3), (6, 9, 7, 4), (3, 0, 5), np.random.default_rng(2), steps=3)
    params = [torch.tensor(each).requires_grad_() for pair in case.params() for each in pair]
    optimiser, losses = torch.optim.SGD(params, train2d_cases.RATE), []
    for x, labels in case.batches():
        y = torch.tensor(x)
        for number, (W, b) in enumerate(zip(params[::2], params[1::2], strict=True)):
            y = torch.nn.functional.linear(y.relu() if number else y, W, b)
        loss = torch.nn.functional.cross_entropy(y, torch.tensor(labels))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    found, right = train2d_cases.serial(case)
    assert right == pytest.approx(losses, rel=1e-12)
    for array, wanted in zip([each for pair in found for each in pair], params, strict=True):
        np.testing.assert_allclose(array, wanted.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("grid_of", [(1, 4), (4, 1), (4, 2), (2, 4)])
def test_bytes_and_time_of_the_reference_are_those_of_the_closed_forms(session, grid_of):
    case = train2d_case(grid_of, (8, 16, 16, 8), 8, np.random.default_rng(3))
    given = case.arguments_of_ranks()
    run = session.call("train2d:train", case.world_size, given, machine=ZARATAN).raise_for_error()
    column, row = train2d_cases.sent_on_axes(run, case)
    for rank in range(case.world_size):
        assert column[rank] == 2 * (case.gathered(rank) + case.scattered(rank))
        assert row[rank] == pytest.approx(2 * case.summed(rank), rel=0.1, abs=64)
    assert run.makespan_s == pytest.approx(train2d_cases.step_s(case, ZARATAN), rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        train2d_case((2, 2), (6, 8, 4), 3, np.random.default_rng(1)),
        train2d_case((1, 3), (6, 8, 4), (2, 0, 1), np.random.default_rng(1), dtype="float32"),
        train2d_case((2, 2), (6, 8, 4), 3, np.random.default_rng(1)).via("train2d_looked_at"),
        train2d_case((2, 2), (6, 8, 4), 3, np.random.default_rng(1)).via("train2d_forward"),
        train2d_cases.train2d_refusal(3, (2, 2)),
    ],
    ids=lambda call: call.reproduce[-60:],
)
def test_a_line_of_train2d_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)


def test_a_line_asks_for_bytes_and_work(capsys):
    case = train2d_case((2, 2), (6, 8, 4), 3, np.random.default_rng(1))
    for check in ("scheme", "work"):
        typed_line.assert_runs(case.asking(f"{check}={case.numbers}:"), SOLUTION, capsys)
    typed_line.assert_runs(
        case.asking(f"column={case.numbers}:{','.join(['9999'] * 4)}"), SOLUTION, capsys
    )
    assert examples.CHECKS.keys() >= {"column", "row"}
