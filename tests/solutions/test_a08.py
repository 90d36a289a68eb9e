"""The reference solutions of a08: against torch on one rank, on the network, and in miniature."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.checking import Verdict, case_files
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import called
from ringside.commands import cli
from ringside.timing.extrapolation import widen
from solutions.a08_tensor_parallel import cost

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a08_tensor_parallel"
WIDTHS = {
    "ColumnLayer": (5, 7),
    "RowLayer": (7, 5),
    "MlpLayer": (5, 7),
    "AttentionLayer": (6, 5, 2, 3),
    "LossLayer": (11,),
}


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


def torchs(case):
    """The same layer by torch's own functions and autograd."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    x, params, grad = case.whole
    leaves = x, *params = [torch.tensor(each, requires_grad=True) for each in (x, *params)]
    if not params:
        y = functional.cross_entropy(x, torch.tensor(case.words), reduction="none")
    elif len(params) == 2:
        y = x @ params[0] + params[1]
    else:
        gamma, beta, W1, b1, W2, b2 = params
        n = functional.layer_norm(x, gamma.shape, gamma, beta)
        if case.layer == "mlp":
            y = functional.gelu(n @ W1 + b1, approximate="tanh") @ W2 + b2 + x
        else:
            B, T, _ = x.shape
            q, k, v = (
                each.reshape(B, T, -1, case.widths[2]).transpose(1, 2)
                for each in (n @ W1 + b1).chunk(3, dim=-1)
            )
            o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = o.transpose(1, 2).reshape(B, T, -1) @ W2 + b2 + x
    y.backward(torch.tensor(grad))
    return [y.detach().numpy(), *(each.grad.numpy() for each in leaves)]


@pytest.mark.parametrize("name", WIDTHS)
def test_the_whole_layers_are_torchs(cases, name):
    case = cases[name](1, 4, WIDTHS[name], seed=3)
    for mine, right in zip(case.serial(*case.whole), torchs(case), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-11, atol=1e-13)


def test_a_wrong_result_is_not_right(session, cases):
    case = cases["MlpLayer"](2, 4, (5, 7))
    run = called(session, case)
    case.check_exactly(run)
    for number, name in enumerate(case.result_names):
        (results,) = run.values[1]["results"]
        results[number].flat[0] += 1e-9
        with pytest.raises(Verdict, match=f"rank 1's {name} is"):
            case.check_exactly(run)
        case.check(run)  # roughly it is
        results[number].flat[0] -= 1e-9


@pytest.mark.parametrize("name", WIDTHS)
def test_a_usual_mistake_is_named(session, cases, name):
    case = cases[name](3, 4, WIDTHS[name])
    run = called(session, case)
    for sentence, values in case.wrong().items():
        for value, mistaken in zip(run.values, values, strict=True):
            value["results"] = [mistaken]
        with pytest.raises(Verdict) as caught:
            case.check_exactly(run)
        assert caught.value.sentence.endswith(sentence)


def test_two_mlps_send_what_layers_in_pairs_do(session, cases):
    for p, n, d, h in ((2, 3, 4, 5), (3, 5, 7, 8), (4, 6, 5, 3)):
        sent = round(sum(sent_as_ring(called(session, cases["MlpLayer"](p, n, (d, h))))))
        two, one = (cost.paired_bytes((d, h) * k + (d,), n, p) for k in (2, 1))
        assert sent == two - one


def test_crossovers_of_very_many_square_layers():
    wide = (4096,) * 100_001
    assert round(cost.crossover_batch(wide, "all_reduce")) == 2731  # and not 1365
    assert round(cost.crossover_batch(wide, "reduce_scatter")) == 4096


def test_a_layer_in_miniature_takes_the_time_of_the_large_one(session, cases):
    large = Machine.load("zaratan").with_(kernel_overhead_s=0.0)
    for p in (4, 8):
        case = cases["MlpLayer"](p, 128, (16, 64), machine="gpt")
        n, d, machine = 2048, 4096, large
        ring_s = 0.0
        for rank in range(p):  # a ring is as slow as its slowest link
            same = rank // machine.ranks_per_node == (rank + 1) % p // machine.ranks_per_node
            alpha_s = machine.intra_alpha_s if same else machine.alpha_s
            beta_s = machine.intra_beta_s_per_byte if same else machine.beta_s_per_byte
            ring_s = max(ring_s, 2 * (p - 1) * (alpha_s + 2 * n * d / p * beta_s))
        bound_s = 12 * n * d * 4 * d / p / machine.flop_per_s + 2 * ring_s
        run = called(session, case)
        case.check(run)
        assert math.isclose(run.makespan_s, bound_s, rel_tol=0.02)


def test_a_stretched_layer_takes_the_time_of_a_run(session, cases):
    few = called(session, cases["MlpLayer"](4, 128, (16, 16), machine="gpt"))
    many = called(session, cases["MlpLayer"](16, 128, (16, 64), machine="gpt"))
    assert replay(widen(few.trace, 16), few.machine).makespan_s == many.makespan_s


def test_a_run_by_hand_finds_a_wrong_mlp(tmp_path, capsys):
    for path in SOLUTION.glob("*.py"):
        shutil.copy(path, tmp_path)
    for name in ("given", "checks"):
        shutil.copytree(SOLUTION / name, tmp_path / name)
    words = ["--ranks", "3", "--", "--n", "4", "--widths", "5,7"]
    for function in ("mlp.py:forward", "mlp.py:measured_layer"):
        assert cli.main(["run", f"{tmp_path}/{function}", *words]) == 0
        assert "values: right" in capsys.readouterr().out
    source = (tmp_path / "mlp.py").read_text()
    (tmp_path / "mlp.py").write_text(source.replace("y += b2 + x", "y += x"))
    assert cli.main(["run", f"{tmp_path}/mlp.py:measured_layer", *words]) == 1
    assert "values: wrong" in capsys.readouterr().out
