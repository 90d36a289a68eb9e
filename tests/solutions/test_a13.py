"""The reference solutions of a13: against torch and closed forms, and typed lines."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Session
from solutions.a13_inference import kv_cache
from solutions.a13_inference.hidden import oracle
from solutions.a13_inference.kv_script import Script, fault, perform
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a13_inference"
cases = oracle.cases
decode_case = cases.decode_case
model = oracle.examples.decode_cases


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- model -----------------------------------------------------------------------------------------


def test_decoding_gives_what_prefill_gives():
    case = decode_case("decode_steps", 1, np.random.default_rng(1), heads=6, kv_heads=2)
    sizes, weights = case.sizes, case.weights()
    text = [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]
    at_once = model.Cache(sizes, 2, 2)
    one_by_one = model.Cache(sizes, 2, 2)
    whole = model.serial_forward(text, at_once, weights, sizes)
    for position in range(5):
        new = [[each[position]] for each in text]
        last = model.serial_forward(new, one_by_one, weights, sizes)
    np.testing.assert_allclose(last, whole, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one_by_one.keys, at_once.keys, rtol=0, atol=1e-12)


def test_the_model_is_torchs():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    case = decode_case("decode_steps", 1, np.random.default_rng(2), heads=6, kv_heads=3)
    sizes, text = case.sizes, [3, 1, 4, 1, 5]
    weights = {name: torch.tensor(each) for name, each in case.weights().items()}
    x = weights["words"][text] + weights["positions"][: len(text)]

    def norm(x, gamma, beta):
        return functional.layer_norm(x, (sizes.d,), gamma, beta)

    for layer in range(sizes.layers):
        w = model_layer(weights, layer)
        n = norm(x, w["gamma1"], w["beta1"])
        q, k, v = (n @ w[f"W{each}"] + w[f"b{each}"] for each in "qkv")
        q, k, v = (each.reshape(len(text), -1, sizes.head_dim).swapaxes(0, 1) for each in (q, k, v))
        k, v = (each.repeat_interleave(2, dim=0) for each in (k, v))
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.swapaxes(0, 1).reshape(len(text), -1) @ w["Wo"] + w["bo"]
        n = norm(x, w["gamma2"], w["beta2"])
        x = x + functional.gelu(n @ w["W1"] + w["b1"], approximate="tanh") @ w["W2"] + w["b2"]
    right = norm(x[-1:], weights["gamma"], weights["beta"])
    cache = model.Cache(sizes, 1, 3)
    found = model.serial_forward([text], cache, case.weights(), sizes)
    np.testing.assert_allclose(found, right.numpy(), rtol=0, atol=1e-12)


def model_layer(weights, layer):
    prefix = f"{layer}."
    return {
        name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)
    }


# -- kv_cache --------------------------------------------------------------------------------------


def test_the_docstrings_examples_of_pages(monkeypatch):
    monkeypatch.syspath_prepend(str(SOLUTION))
    assert kv_cache.token_bytes(32, 8, 128) == 128 * 2**10
    assert kv_cache.token_bytes(80, 8, 128) == 320 * 2**10
    for steps in (
        "new a, append a 8, fork a b, append a 1, append b 1, used 4",
        "new a, append a 6, used 2, fork a b, append a 1, append b 1, used 3",
    ):
        script = Script(steps)
        assert fault(script, perform(script)) is None


# -- decode ----------------------------------------------------------------------------------------


def test_the_docstrings_examples_of_bytes():
    case = decode_case("decode_steps", 4, seed=1, heads=6, lengths=(1, 1, 1), tokens=1)
    assert case.forward_nbytes() == 4 * (108 * 8 + 64 * 3)
    assert case.greedy_nbytes() == 144 + 192


@pytest.mark.parametrize(("p", "ranks_per_node"), [(1, 8), (4, 8), (4, 1)])
def test_the_reference_takes_the_time_of_token_time(session, p, ranks_per_node):
    case = decode_case("decode_generate", p, np.random.default_rng(1), heads=8, vocabulary=64)
    machine = cases.decode_machine(ranks_per_node)
    result = session.call(case.target, p, case.arguments_of_ranks(), machine=machine)
    taken_s = result.raise_for_error().makespan_s
    assert taken_s == pytest.approx(oracle.decode_makespan_s(case, machine), rel=0.01)


@pytest.mark.parametrize(
    "call",
    [
        decode_case("decode_steps", 3, seed=1, lengths=(4, 1), kv_heads=3),
        decode_case("decode_generate", 2, seed=2, dtype="float32"),
        decode_case("decode_greedy", 3, seed=3, heads=3, vocabulary=36, kind="ties"),
        decode_case("decode_generate", 3, seed=4).called_through("decode_twice"),
        decode_case("decode_shards", 3, seed=5),
    ],
    ids=lambda call: call.reproduce[-60:],
)
def test_a_line_of_decode_runs_what_the_suite_ran(call, capsys):
    typed_line.assert_runs(call, SOLUTION, capsys)
