"""The references of a12: against closed forms, torch, and all orders there are."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from ringside import Session
from ringside.checking import Verdict, case_files
from ringside.checking.suite import called, drawn
from solutions.a12_hybrid import grid

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a12_hybrid"
SIZES = {"data": 2, "pipe": 2, "tensor": 3}


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


# -- grid ------------------------------------------------------------------------------------------


def test_the_drawing_of_the_docstring():
    ranks = grid.coordinates(12, SIZES, ["tensor", "data", "pipe"])
    assert ranks[8] == {"tensor": 2, "data": 0, "pipe": 1}
    assert grid.groups(ranks, ["data", "tensor"])[0] == [0, 3, 1, 4, 2, 5]
    assert grid.groups(ranks, ["pipe"])[:2] == [[0, 6], [1, 7]]
    assert grid.neighbour(ranks, 5, "tensor", 1, True) == 3
    assert grid.neighbour(ranks, 5, "tensor", 1, False) is None


@pytest.mark.parametrize("order", list(itertools.permutations(SIZES)))
def test_each_rank_is_in_one_group_and_differs_in_its_axes_alone(order):
    ranks = grid.coordinates(12, SIZES, order)
    for axes in itertools.chain(*(itertools.permutations(order, count) for count in range(4))):
        groups = grid.groups(ranks, axes)
        assert sorted(itertools.chain(*groups)) == list(range(12))
        for group in groups:
            places = [tuple(ranks[rank][axis] for axis in reversed(axes)) for rank in group]
            assert places == list(itertools.product(*(range(SIZES[a]) for a in reversed(axes))))


def test_an_order_that_keeps_axes_inside_nodes_is_found_wherever_there_is_one(cases):
    sizes = {"a": 2, "b": 3, "c": 2}
    chosen = [each for count in range(4) for each in itertools.combinations(sizes, count)]
    for inside, nodes in itertools.product(chosen, range(1, 14)):
        case, right = cases["Place"](12, sizes, inside, nodes), []
        for order in itertools.permutations(sizes):
            try:
                case.check_value(list(order))
                right.append(order)
            except Verdict:
                pass
        if right:
            case.check_value(grid.place(*case.arguments()))
        else:
            with pytest.raises(ValueError, match="would cut"):
                grid.place(*case.arguments())


# -- train2d ---------------------------------------------------------------------------------------


def test_the_docstrings_example_in_numbers(cases):
    case = cases["Train"](6, 2, (8, 6, 4), (5,))
    assert case.gathered(0) == 5 * (3 + 2) * 8
    assert case.scattered(0) == 5 * 3 * 8
    assert case.own(0) == 27 + 14
    assert case.summed(0) == 56 * 8


def test_the_serial_oracle_is_torchs_sgd(cases):
    torch = pytest.importorskip("torch")
    case = cases["Train"](6, 2, (6, 9, 7, 4), (3, 0, 5), 3)
    params = [torch.tensor(each).requires_grad_() for pair in case.params for each in pair]
    optimiser, losses = torch.optim.SGD(params, 0.5), []
    for x, labels in case.batches:
        y = torch.tensor(x)
        for number, (W, b) in enumerate(zip(params[::2], params[1::2], strict=True)):
            y = torch.nn.functional.linear(y.relu() if number else y, W, b)
        loss = torch.nn.functional.cross_entropy(y, torch.tensor(labels))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    found, right = case.serial()
    assert right == pytest.approx(losses, rel=1e-12)
    for array, wanted in zip([each for pair in found for each in pair], params, strict=True):
        np.testing.assert_allclose(array, wanted.detach().numpy(), atol=1e-12)


@pytest.mark.parametrize("p, rows", [(4, 1), (4, 4), (8, 4), (8, 2)])
def test_bytes_and_time_of_the_reference_are_those_of_the_closed_forms(session, cases, p, rows):
    case = cases["Train"](p, rows, (8, 16, 16, 8), (8,), machine="miniature")
    run = called(session, case)
    column, row = cases["Train"].check.__globals__["sent_on_axes"](run, case)
    for rank in range(p):
        assert column[rank] == 2 * (case.gathered(rank) + case.scattered(rank))
        assert row[rank] == pytest.approx(2 * case.summed(rank), rel=0.1, abs=64)
    assert run.makespan_s == pytest.approx(case.time_s(), rel=1e-6)


# -- planner ---------------------------------------------------------------------------------------


def test_the_written_times_of_public_plans_are_those_of_all_mixtures(monkeypatch):
    monkeypatch.syspath_prepend(str(SOLUTION))
    before = set(sys.modules)
    try:
        from checks import test_planner
        from hidden import cases

        rng, found = np.random.default_rng(0), vars(test_planner).values()
        tests = [each.suite_test for each in found if hasattr(each, "suite_test")]
        shares = [share for test in tests for share in drawn(test.public, rng)]
        small = [case for share in shares for case in share.cases if case.num_gpus <= 16]
        assert len(small) > 15
        for case in small:
            right = cases.least(case) if case.raises else cases.fastest(case)
            assert case.gives is None or case.gives == pytest.approx(right, rel=1e-11)
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in ("checks", "hidden", "given"):
                del sys.modules[name]
