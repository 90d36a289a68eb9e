"""memory and offload of a07: published numbers, torch's tracker, and every plan of few layers."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from ringside import Session
from solutions.a07_sharding import memory, offload_model, offload_run
from solutions.a07_sharding.gpt_sizes import Sizes
from solutions.a07_sharding.hidden import plan_oracle
from solutions.a07_sharding.offload_model import CHOICES, Layer, makespan_s, simulate

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a07_sharding"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- memory ----------------------------------------------------------------------------------------


def test_the_states_are_those_that_zero_published():
    # Rajbhandari et al. 2020, figure 1: 7.5e9 parameters on 64 ranks.
    gb = [memory.state_bytes(7_500_000_000, 64, stage) / 1e9 for stage in range(4)]
    assert [round(each, 1) for each in gb] == [120.0, 31.4, 16.6, 1.9]


def test_a_layer_is_the_published_formula():
    # Korthikanti et al. 2022, section 4.1, in 16 bits; and what becomes of it in 32.
    for s, h, a in ((2048, 4096, 32), (128, 96, 3)):
        layer = {}
        for w in (2, 4):
            one, two = (
                memory.activation_bytes(Sizes(count, h, a, s, 11), 5, element_bytes=w)
                for count in (1, 2)
            )
            layer[w] = two - one
        assert layer == {
            2: s * 5 * (34 * h + 5 * a * s),
            4: s * 5 * (66 * h + 9 * a * s),
        }


@pytest.mark.parametrize("recompute", [False, True])
def test_the_formula_differs_from_the_tracker_by_what_the_docstring_says(session, recompute):
    sizes = (3, 96, 3, 40, 70)
    result = session.call("gpt_torch:kept", 1, (sizes, 2, 2, True, recompute)).raise_for_error()
    assert result.values[0] == memory.num_parameters(Sizes(*sizes))
    formula = memory.activation_bytes(Sizes(*sizes), 2, recompute=recompute)
    norms = 1 + 2 * (1 if recompute else 3)
    extra = norms * 2 * 2 * 80 + 40 * 40 + 8 * 80  # mean and deviation; mask of attention; tokens
    assert 0 <= result.memory[0]["live"]["activations"] - formula - extra <= 16


@pytest.mark.parametrize("stage", [0, 3])
def test_the_state_is_what_torch_holds_after_a_step(session, stage):
    result = session.call("gpt_torch:stepped", 4, ((2, 64, 2, 16, 64), stage)).raise_for_error()
    for told, number in zip(result.memory, result.values, strict=True):
        held = sum(told["after_step"][kind] for kind in ("parameters", "gradients", "optimizer"))
        right = memory.state_bytes(
            number, 4, stage, weight_bytes=4, gradient_bytes=4, optimizer_bytes=8
        )
        assert held == pytest.approx(right, rel=0.01)


# -- offload ---------------------------------------------------------------------------------------


def test_a_plan_takes_what_the_drawing_says():
    spans = []
    plan = ["swap", "recompute", "keep"]
    assert simulate([Layer(2, 3, 2)] * 3, plan, 5, 1, spans) == (17, 4)
    drawn = {"compute": ["F0", "F0", "F1", "F1", "F2", "F2", *["B2"] * 3, "F1", "F1",
                         *["B1"] * 3, *["B0"] * 3],
             "copy": [".", ".", ">0", ">0", *"." * 5, "<0", "<0", *"." * 6]}  # fmt: skip
    for stream, seconds in drawn.items():
        found = ["."] * 17
        for span in spans:
            if span.stream == stream:
                for second in range(int(span.begin_s), int(span.end_s)):
                    found[second] = span.what
        assert found == seconds
        row = " ".join(each.ljust(2).replace(". ", "  ") for each in seconds).rstrip()
        assert f"{stream:<10}{row}\n" in offload_model.__doc__


def held(layers, plan, spans):
    """Most bytes at any time, from when each piece of work began and ended."""
    begin = {(s.what, i): s for i, s in enumerate(spans)}
    changes = []
    for k, layer in enumerate(layers):
        first, *again = [s for (what, _), s in begin.items() if what == f"F{k}"]
        (end_s,) = [s.end_s for (what, _), s in begin.items() if what == f"B{k}"]
        copies = [s for (what, _), s in begin.items() if what in (f">{k}", f"<{k}")]
        times = {
            "keep": [(first.begin_s, end_s)],
            "recompute": [(first.begin_s, first.end_s)] + [(s.begin_s, end_s) for s in again],
            "swap": [(first.begin_s, s.end_s) for s in copies[:1]]
            + [(s.begin_s, end_s) for s in copies[1:]],
        }
        for since_s, until_s in times[plan[k]]:
            changes += [(since_s, 1, layer.nbytes), (until_s, 0, -layer.nbytes)]
    used = np.cumsum([nbytes for *_, nbytes in sorted(changes)])
    return int(used.max())


def test_the_peak_is_what_the_pieces_of_work_hold():
    rng = np.random.default_rng(4)
    for _ in range(150):
        numbers, capacity, host = plan_oracle.drawn(rng, 6)
        layers = [Layer(*each) for each in numbers]
        plan, spans = rng.choice(CHOICES, size=6).tolist(), []
        time_s, peak = simulate(layers, plan, capacity, host, spans)
        if peak < np.inf:
            assert held(layers, plan, spans) == peak <= capacity
            busy = sum(s.end_s - s.begin_s for s in spans if s.stream == "compute")
            assert time_s >= busy - 1e-9


def test_a_plan_fits_when_what_is_kept_leaves_room_for_the_next_layer():
    rng = np.random.default_rng(5)
    for _ in range(200):
        numbers, capacity, host = plan_oracle.drawn(rng, 5)
        layers = [Layer(*each) for each in numbers]
        plan, kept, fits = rng.choice(CHOICES, size=5).tolist(), 0, True
        for layer, choice in zip(layers, plan, strict=True):
            fits = fits and kept + layer.nbytes <= capacity
            kept += layer.nbytes if choice == "keep" else 0
        assert (makespan_s(layers, plan, capacity, host) < np.inf) == fits


def test_letting_the_last_layer_go_never_pays():
    rng = np.random.default_rng(6)
    for _ in range(6):
        numbers, capacity, host = plan_oracle.drawn(rng, 5)
        layers = [Layer(*each) for each in numbers]
        all_plans = itertools.product(CHOICES, repeat=5)
        best_s = min(makespan_s(layers, plan, capacity, host) for plan in all_plans)
        assert plan_oracle.shortest_s(layers, capacity, host) == pytest.approx(best_s, rel=1e-12)
        assert plan_oracle.reference_s(layers, capacity, host) == pytest.approx(best_s, rel=1e-12)


def test_the_reference_is_near_the_shortest_of_nine_layers():
    rng = np.random.default_rng(7)
    numbers, capacity, host = plan_oracle.drawn(rng, 9, 0.5)
    layers = [Layer(*each) for each in numbers]
    best_s = plan_oracle.shortest_s(layers, capacity, host)
    assert plan_oracle.reference_s(layers, capacity, host) <= 1.01 * best_s


def test_gradients_do_not_depend_on_the_plan_and_memory_runs_out():
    weights, x = offload_run.drawn(np.random.default_rng(8), [4, 7, 2])
    kept = offload_run.gradients(weights, x, ["keep"] * 3, 16 * 13)
    for plan in itertools.product(CHOICES, repeat=3):
        found = offload_run.gradients(weights, x, plan, 16 * 13)
        for a, b in zip(found, kept, strict=True):
            assert all(np.array_equal(c, d) for c, d in zip(a, b, strict=True))
    into, step = weights[1][0], 1e-6

    def loss():
        y = x
        for first, second in weights:
            y = y + np.tanh(y @ first) @ second
        return 0.5 * np.sum(y * y)

    into[1, 3] += step
    above = loss()
    into[1, 3] -= 2 * step
    assert kept[1][0][1, 3] == pytest.approx((above - loss()) / (2 * step), rel=1e-5)
    with pytest.raises(MemoryError, match=r"layer 1 doesn't fit"):
        offload_run.gradients(weights, x, ["keep"] * 3, 16 * 10)
