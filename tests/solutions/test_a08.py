"""The reference solutions of a08: against torch on one rank, on the network, and in miniature."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.checking.ring_bytes import sent_as_ring
from ringside.commands import cli
from ringside.timing.extrapolation import widen
from solutions.a08_tensor_parallel import cost
from solutions.a08_tensor_parallel.hidden import oracle, runs

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a08_tensor_parallel"
WIDTHS = {
    "column_layer": (5, 7),
    "row_layer": (7, 5),
    "mlp_layer": (5, 7),
    "attention_layer": (6, 5, 2, 3),
    "loss_layer": (11,),
}


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


def called(session, asked, machine=None):
    size = asked.case.world_size
    arguments = [asked.arguments(rank) for rank in range(size)]
    return session.call(asked.case.target, size, arguments, machine=machine).raise_for_error()


def torchs(layer, whole):
    """The same layer by torch's own functions and autograd."""
    import torch
    from torch.nn import functional as F

    def leaf(array):
        return torch.tensor(array, requires_grad=True)

    x, *rest, grad = whole
    if layer == "loss_layer":
        x = leaf(x)
        y, leaves = F.cross_entropy(x, torch.tensor(rest[0]), reduction="none"), [x]
    elif layer in ("column_layer", "row_layer"):
        leaves = x, W, b = [leaf(each) for each in (x, *rest)]
        y = x @ W + b
    else:
        leaves = x, gamma, beta, W1, b1, W2, b2 = [leaf(each) for each in (x, *rest[0])]
        n = F.layer_norm(x, gamma.shape, gamma, beta)
        if layer == "mlp_layer":
            y = F.gelu(n @ W1 + b1, approximate="tanh") @ W2 + b2 + x
        else:
            B, T, _ = x.shape
            q, k, v = (
                each.reshape(B, T, -1, rest[1]).transpose(1, 2)
                for each in (n @ W1 + b1).chunk(3, dim=-1)
            )
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = o.transpose(1, 2).reshape(B, T, -1) @ W2 + b2 + x
    y.backward(torch.tensor(grad))
    return [y.detach().numpy(), *(each.grad.numpy() for each in leaves)]


@pytest.mark.parametrize("layer", WIDTHS)
def test_the_whole_layers_are_torchs(layer):
    whole = oracle.examples.drawn(layer, 4, WIDTHS[layer], np.random.default_rng(3))
    ours = oracle.examples.serial(layer, whole)
    for mine, right in zip(ours, torchs(layer, whole), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("layer", WIDTHS)
def test_a_cut_layer_is_the_whole_one(session, layer):
    for world_size in (1, 3, 4):
        asked = runs.draw(np.random.default_rng(1), layer, world_size, 4, WIDTHS[layer])
        result = called(session, asked)
        runs.assert_right(result, asked)
        assert sum(result.num_flops()) == pytest.approx(
            sum(called(session, runs.draw(np.random.default_rng(1), layer, 1, 4, WIDTHS[layer]))
                .num_flops())
        )  # fmt: skip


def test_a_wrong_result_is_not_right(session):
    asked = runs.draw(np.random.default_rng(1), "mlp_layer", 2, 4, (5, 7))
    result = called(session, asked)
    for index in range(8):
        result.values[1][index].flat[0] += 1e-9
        name = oracle.examples.NAMES["mlp_layer"][index]
        with pytest.raises(AssertionError, match=f"rank 1's {name} is"):
            runs.assert_right(result, asked)
        result.values[1][index].flat[0] -= 1e-9


def test_two_mlps_send_what_layers_in_pairs_do(session):
    for p, n, d, h in ((2, 3, 4, 5), (3, 5, 7, 8), (4, 6, 5, 3)):
        asked = runs.draw(np.random.default_rng(1), "mlp_layer", p, n, (d, h))
        sent = round(sum(sent_as_ring(called(session, asked))))
        two, one = (cost.paired_bytes((d, h) * k + (d,), n, p) for k in (2, 1))
        assert sent == two - one


def test_crossovers_of_very_many_square_layers():
    wide = (4096,) * 100_001
    assert round(cost.crossover_batch(wide, "all_reduce")) == 2731  # and not 1365
    assert round(cost.crossover_batch(wide, "reduce_scatter")) == 4096


def test_a_layer_in_miniature_takes_the_time_of_the_large_one():
    for machine in (Machine.load("zaratan"), Machine.load("textbook")):
        small = oracle.in_miniature(machine, 2048, 4096, 128, 16)
        plain = machine.with_(kernel_overhead_s=0.0)
        for p in (4, 8):
            times = [
                oracle.makespan_s(
                    [("compute", 12 * n * d * 4 * d / p), ("allreduce", unit * n * d)], p, each
                )
                for each, n, d, unit in ((small, 128, 16, 8), (plain, 2048, 4096, 2))
            ]
            assert math.isclose(*times, rel_tol=1e-6)


def test_a_stretched_layer_takes_the_time_of_a_run(session):
    machine = oracle.in_miniature(Machine.load("zaratan"), 2048, 4096, 32, 16)
    rng = np.random.default_rng(1)
    few = called(session, runs.draw(rng, "mlp_layer", 4, 32, (16, 16)), machine)
    many = called(session, runs.draw(rng, "mlp_layer", 16, 32, (16, 64)), machine)
    assert replay(widen(few.trace, 16), machine).makespan_s == many.makespan_s


def test_examples_find_a_wrong_mlp(tmp_path, capsys):
    for path in SOLUTION.glob("*.py"):
        shutil.copy(path, tmp_path)
    words = ["--ranks", "3", "--", "--n", "4", "--widths", "5,7"]
    for function in ("callers.py:mlp_layer", "mlp.py:measured_layer"):
        assert cli.main(["run", f"{tmp_path}/{function}", *words]) == 0
        assert "values: right" in capsys.readouterr().out
    source = (tmp_path / "mlp.py").read_text()
    (tmp_path / "mlp.py").write_text(source.replace("y += b2 + x", "y += x"))
    assert cli.main(["run", f"{tmp_path}/mlp.py:measured_layer", *words]) == 1
    assert "values: wrong. Rank 0 returned" in capsys.readouterr().out
