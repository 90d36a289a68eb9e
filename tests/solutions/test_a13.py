"""The references of a13: the model against torch, and the docstrings' closed forms."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Session
from ringside.checking import case_files
from ringside.checking.cases import machine_of
from ringside.checking.suite import called
from solutions.a13_inference.given.model import (
    Cache,
    Sizes,
    make_weights,
    of_layer,
    serial_forward,
)

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a13_inference"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


def test_decoding_gives_what_prefill_gives():
    sizes = Sizes(kv_heads=2)
    weights, text = make_weights(sizes, 1), [[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]
    at_once, one_by_one = Cache(sizes, 2, 2), Cache(sizes, 2, 2)
    whole = serial_forward(text, at_once, weights, sizes)
    for position in range(5):
        last = serial_forward([[each[position]] for each in text], one_by_one, weights, sizes)
    np.testing.assert_allclose(last, whole, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one_by_one.keys, at_once.keys, rtol=0, atol=1e-12)


def test_the_model_is_torchs():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    sizes, text = Sizes(kv_heads=3), [3, 1, 4, 1, 5]
    arrays = make_weights(sizes, 2)
    weights = {name: torch.tensor(each) for name, each in arrays.items()}
    x = weights["words"][text] + weights["positions"][: len(text)]

    def norm(x, gamma, beta):
        return functional.layer_norm(x, (sizes.d,), gamma, beta)

    for layer in range(sizes.layers):
        w = of_layer(weights, layer)
        n = norm(x, w["gamma1"], w["beta1"])
        q, k, v = (n @ w[f"W{each}"] + w[f"b{each}"] for each in "qkv")
        q, k, v = (each.reshape(len(text), -1, sizes.head_dim).swapaxes(0, 1) for each in (q, k, v))
        k, v = (each.repeat_interleave(2, dim=0) for each in (k, v))
        o = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + o.swapaxes(0, 1).reshape(len(text), -1) @ w["Wo"] + w["bo"]
        n = norm(x, w["gamma2"], w["beta2"])
        x = x + functional.gelu(n @ w["W1"] + w["b1"], approximate="tanh") @ w["W2"] + w["b2"]
    right = norm(x[-1:], weights["gamma"], weights["beta"])
    cache = Cache(sizes, 1, 3)
    found = serial_forward([text], cache, arrays, sizes)
    np.testing.assert_allclose(found, right.numpy(), rtol=0, atol=1e-12)


def test_the_docstrings_examples_of_bytes(cases):
    case = cases["Forward"](4, lengths=(1, 1, 1), tokens=1)
    assert case.forward_nbytes == 4 * (108 * 8 + 64 * 3)
    assert case.greedy_nbytes == 144 + 192


@pytest.mark.parametrize(
    "steps",
    [
        "append a 8, fork a b, append a 1, append b 1, used 4",
        "append a 6, used 2, fork a b, append a 1, append b 1, used 3",
    ],
)
def test_the_docstrings_examples_of_pages(session, cases, steps):
    case = cases["Script"](f"new a, {steps}")
    inside = session.call(
        "ringside.checking.inside:several", 1, [(case.through, [case.arguments()])]
    )
    ((value, _, _),) = inside.raise_for_error().values[0]
    case.look(value, "gather", "pool", "pages", "counts", "used")


def test_the_reference_takes_the_time_of_token_time(session, cases):
    gpus = "zaratan,ranks_per_node=1,memory_bytes_per_s=4e9,flop_per_s=1e13"
    case = cases["Generate"](4, heads=8, vocabulary=64, machine=gpus)
    sizes = tuple(vars(case.sizes).values())
    steps = sizes, list(case.lengths), [0] * len(case.lengths), case.tokens
    alone = session.call("given/token_time.py:steps", 4, steps, machine=machine_of(case))
    assert called(session, case).makespan_s == pytest.approx(alone.makespan_s, rel=0.01)


def test_the_docstrings_example_of_pieces(session, cases):
    case = cases["Sync"](6, (4, 1, 1), (1, 2, 1), (8, 6))
    run = called(session, case)
    case.check(run)
    assert run.bytes_matrix()[1][4] == 48
    assert run.sent_bytes() == [96] * 4 + [0] * 2
    assert sum(run.sent_messages()) == 8
    calls = [("weights:plan", [case.layouts])]
    plans = session.call("ringside.checking.inside:several", 1, calls).raise_for_error()
    assert (1, 4, ((2, 4), (0, 3))) in plans.values[0][0][0]
