"""The reference solutions of a11: against torch and closed forms, and typed lines."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from solutions.a11_spatial import cost
from solutions.a11_spatial.conv_sizes import Layer, halving
from solutions.a11_spatial.hidden.oracle import examples
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a11_spatial"
TEXTBOOK = Machine.load("textbook")
conv_cases, halo_cases = examples.conv_cases, examples.halo_cases
conv_case, halo_case = conv_cases.conv_case, halo_cases.halo_case


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- halo ------------------------------------------------------------------------------------------


def test_neighbours_of_a_grid_are_those_of_the_docstrings_example():
    case = halo_cases.grid_case((10, 10), (10,) * 3, 1, (1, 1), np.random.default_rng(1))
    assert case.neighbours()[4] == {1: 96, 3: 80, 5: 80}


@pytest.mark.parametrize(
    "call",
    [
        halo_case((3, 2), 1, (1, 2, 3), np.random.default_rng(1)),
        halo_case((3, 4), 2, (1, 1, 3), np.random.default_rng(1), "float32"),
        halo_case((3, 3), 1, (1, 2, 3), np.random.default_rng(1)).via("halo_looked_at"),
        halo_cases.grid_case((3, 2), (4,), 1, (1, 2), np.random.default_rng(1)),
        halo_cases.low_case((3, 1, 3, 3), 2, np.random.default_rng(1)),
    ],
    ids=str,
)
def test_a_line_of_halo_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)


# -- conv ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "stride"), [(1, 1), (3, 1), (5, 1), (3, 2), (5, 2)])
def test_the_oracle_is_torchs_convolution(k, stride):
    torch = pytest.importorskip("torch")
    heights = (4, 7, 5)
    case = conv_case(heights, np.random.default_rng(k), k, stride, (2, 3, 4, 6))
    conv, x, dy = case.inputs()
    x, weight, bias = (torch.tensor(each) for each in (x, conv.weight, conv.bias))
    given = [each.requires_grad_() for each in (x, weight, bias)]
    y = torch.nn.functional.conv2d(*given, stride=stride, padding=k // 2)
    dx, dw, db = torch.autograd.grad(y, given, torch.tensor(dy))
    for rank, found in enumerate(conv_cases.serial(case)):
        top, bottom = case.bounds[rank]
        first, end = case.outputs[rank]
        right = y[:, :, first:end].detach(), dx[:, :, top:bottom], dw, db
        for array, wanted in zip(found, right, strict=True):
            np.testing.assert_allclose(array, wanted.numpy(), rtol=0, atol=1e-12)


def test_both_passes_take_the_time_of_the_closed_forms(session):
    case = conv_case((12,) * 5, np.random.default_rng(1), shape=(1, 2, 2, 6))
    one_s = conv_cases.rows_s(case, TEXTBOOK, 12)
    for alpha_s in (1e-5, 1e-4, 2e-3):
        machine = TEXTBOOK.with_(flop_per_s=TEXTBOOK.flop_per_s * one_s / 1e-3, alpha_s=alpha_s)
        given = case.arguments_of_ranks()
        forward = session.call(
            "callers:conv_forward", 5, [each[:-1] for each in given], machine=machine
        ).raise_for_error()
        assert forward.makespan_s == pytest.approx(conv_cases.forward_s(case, machine), rel=0.01)
        both = session.call("callers:conv_both", 5, given, machine=machine).raise_for_error()
        bound_s = forward.makespan_s + conv_cases.backward_s(case, machine)
        assert 0.8 * bound_s < both.makespan_s <= 1.01 * bound_s


@pytest.mark.parametrize(
    "call",
    [
        conv_case((3, 4), np.random.default_rng(1)).via("conv_forward"),
        conv_case((3, 4), np.random.default_rng(1), 5, 2),
        conv_case((3, 4), np.random.default_rng(1), dtype="float32").via("conv_looked_at"),
        conv_case((3, 4), np.random.default_rng(1)).asking("factors", "interior=0:2,4:7"),
        conv_case((3, 4), np.random.default_rng(1)).asking("one_all_reduce", "halos=56"),
    ],
    ids=lambda call: call.reproduce[-60:],
)
def test_a_line_of_conv_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)


def test_a_line_of_announced_passes_compares_them(capsys):
    call = conv_case((3, 4), np.random.default_rng(1))
    typed_line.assert_runs(
        call.asking("factors", f"passes={call.numbers(['y', 'dx'])}"), SOLUTION, capsys
    )


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
