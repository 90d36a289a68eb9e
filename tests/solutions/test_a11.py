"""The references of a11: against torch, the docstrings' examples and closed forms."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.checking import case_files
from ringside.checking.suite import called
from solutions.a11_spatial import cost
from solutions.a11_spatial.given.conv_sizes import Layer, halving

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a11_spatial"
TEXTBOOK = Machine.load("textbook")


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


# -- halo, conv ------------------------------------------------------------------------------------


def test_neighbours_of_a_grid_are_those_of_the_docstrings_example(cases):
    case = cases["ExchangeGrid"](6, (10, 10), 1, (1, 1), (10,))
    assert case.neighbours()[4] == {1: 96, 3: 80, 5: 80}


@pytest.mark.parametrize(("k", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
def test_the_oracle_is_torchs_convolution(cases, k, stride):
    torch = pytest.importorskip("torch")
    case = cases["Both"](3, (4, 7, 5), k, stride, (2, 3, 4, 6), seed=k)
    conv, x, dy = case.whole
    given = [torch.tensor(each, requires_grad=True) for each in (x, conv.weight, conv.bias)]
    y = torch.nn.functional.conv2d(*given, stride=stride, padding=k // 2)
    dx, dw, db = torch.autograd.grad(y, given, torch.tensor(dy))
    for rank, found in enumerate(case.right()):
        top, bottom = case.bounds[rank]
        first, end = case.outputs[rank]
        right = y[:, :, first:end].detach(), dx[:, :, top:bottom], dw, db
        for array, wanted in zip(found, right, strict=True):
            np.testing.assert_allclose(array, wanted.numpy(), rtol=0, atol=1e-12)


def test_both_passes_take_the_time_of_the_closed_forms(session, cases):
    for alpha_s in (1e-5, 1e-4, 2e-3):  # a pass of 12 rows takes 1 ms
        where = {"shape": (1, 2, 2, 6), "machine": f"textbook,flop_per_s=5.184e6,alpha_s={alpha_s}"}
        case = cases["Forward"](5, (12,), **where)
        forward = called(session, case)
        assert forward.makespan_s == pytest.approx(case.forward_s(), rel=0.01)
        case = cases["Both"](5, (12,), **where)
        bound_s = forward.makespan_s + case.backward_s()
        assert 0.8 * bound_s < called(session, case).makespan_s <= 1.01 * bound_s


# -- cost ------------------------------------------------------------------------------------------


def test_the_docstrings_example():
    layers = [Layer(8, 8, 2, 4)]
    assert cost.data_bytes(layers, 3, 4) == 1728
    assert cost.filter_bytes(layers, 3, 4) == 9216
    assert cost.domain_bytes(layers, 3, 4) == 1152 + 1728


def test_the_corrections_of_the_slides_formula():
    """A halo has 1 row of a 3 x 3 filter and not 1.5, and a rank has two neighbours."""
    layers, machine = [Layer(64, 64, 3, 8), Layer(64, 64, 8, 8)], TEXTBOOK
    halos_s = cost.domain_s(layers, 2, 8, machine) - cost.data_s(layers, 2, 8, machine)
    rows = 2 * 64 * (3 + 8 + 8) * 4  # B width (C_1 + C_2 + O_2), one row each
    right = 3 * machine.alpha_s + 2 * rows * machine.beta_s_per_byte
    assert halos_s == pytest.approx(right)


def test_domain_wins_with_one_large_image_and_never_beside_data():
    for resolution in (256, 1024, 4096):
        layers = halving(resolution, (3, 32, 64, 128))
        assert cost.best(layers, 1, 8, TEXTBOOK) == "domain"
        assert cost.best(layers, 8, 8, TEXTBOOK) == "data"
