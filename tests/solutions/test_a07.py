"""The references of a07: against torch, published numbers, and the closed forms of their time."""

import importlib
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.checking import case_files
from ringside.checking.ring_bytes import sent_as_ring
from ringside.checking.suite import called
from solutions.a07_sharding.given import gpt_memory, offload_model
from solutions.a07_sharding.given.adam import BETA1, BETA2, EPS, adam
from solutions.a07_sharding.given.offload_model import CHOICES, Layer, makespan_s, simulate

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a07_sharding"
INSIDE = "checks/inside_torch.py"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


# -- zero1, zero3_torch, hsdp_torch ----------------------------------------------------------------


def test_the_supplied_adam_is_torchs_adamw():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    w, m, v = rng.standard_normal(9), np.zeros(9), np.zeros(9)
    param = torch.nn.Parameter(torch.tensor(w))
    theirs = torch.optim.AdamW([param], lr=0.1, betas=(BETA1, BETA2), eps=EPS, weight_decay=0.3)
    for t in range(1, 5):
        g = rng.standard_normal(9)
        param.grad = torch.tensor(g)
        theirs.step()
        w, m, v = adam(w, g, m, v, t, 0.1, 0.3)
        np.testing.assert_allclose(w, param.detach().numpy(), rtol=0, atol=1e-14)


def test_zero3_and_fully_shard_train_alike_and_zero3_sends_less(session, cases):
    case = cases["Train"](3, (6, 4, 8, 3), steps=3)
    mine = called(session, case)
    case.check(mine)
    whole = [param for part in case.params for param in part]
    inputs = [case.inputs(rank) for rank in range(3)]

    def theirs(gathered):
        args = [(spec, whole, steps, gathered) for spec, _, steps, *_ in inputs]
        return session.call(f"{INSIDE}:with_fully_shard", 3, args).raise_for_error()

    right = [param for part in case.serial()["params"] for param in part]
    for values in theirs(True).values:
        for value, param in zip(values, right, strict=True):
            np.testing.assert_allclose(value, param, rtol=0, atol=1e-12)
    sizes = [layer.nbytes for layer in case.layers]
    assert sent_as_ring(mine) == [pytest.approx(3 * (3 * sum(sizes) - sizes[-1]) * 2 / 3)] * 3
    assert max(sent_as_ring(mine)) < min(sent_as_ring(theirs(False)))


@pytest.fixture(scope="module")
def functions(cases):
    """The functions beside the classes of cases of the torch modules, by name."""
    return cases["Train"].check.__globals__


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_a_step_of_zero3_takes_as_long_as_the_schedule_says(session, cases, functions, share):
    slow = "name=slow wire,alpha_s=1e-06,beta_s_per_byte=1e-06"
    machine, sizes = Machine.load(slow), [8 * 156] * 6
    backward_s = 2 * functions["ring_s"](sizes[0], 8, machine) * share
    costs = backward_s / 2, backward_s
    run = called(session, cases["Train"](4, (12,) * 7, steps=1, costs=costs, machine=slow))
    for p in (4, 8, 32):
        took_s = replay(functions["stretched"](run.trace, p), machine).makespan_s
        bound_s = functions["schedule_s"](sizes, costs, p, machine, again=False)
        assert 0.97 * bound_s < took_s < 1.001 * bound_s


def test_a_step_stretched_to_8_ranks_takes_as_long_as_one_that_ran_there(session, cases, functions):
    machine, took_s = Machine.load("zaratan"), []
    for p in (4, 8):
        run = called(session, cases["Train"](p, (16,) * 5, bias=False, steps=1, machine="zaratan"))
        took_s.append(replay(functions["stretched"](run.trace, 8), machine).makespan_s)
    assert took_s[0] == pytest.approx(took_s[1], rel=1e-2)  # optimizers work on shards


def test_a_step_of_hsdp_halves_that_of_plain_sharding_on_two_nodes(session, cases):
    case = cases["StepOf"](8, machine="zaratan,kernel_overhead_s=0")
    plain = called(session, case, f"{INSIDE}:flat_step", [(case.lengths,)] * 8)
    assert 0.4 < called(session, case).makespan_s / plain.makespan_s < 0.6


# -- memory ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def memory():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "given.gpt_memory", gpt_memory)
        patch.setitem(sys.modules, "given", sys.modules["solutions.a07_sharding.given"])
        yield importlib.import_module("solutions.a07_sharding.memory")


def test_the_states_are_those_that_zero_published(memory):
    # Rajbhandari et al. 2020, figure 1: 7.5e9 parameters on 64 ranks.
    gb = [memory.state_bytes(7_500_000_000, 64, stage) / 1e9 for stage in range(4)]
    assert [round(each, 1) for each in gb] == [120.0, 31.4, 16.6, 1.9]


def test_a_layer_is_the_published_formula(memory):
    # Korthikanti et al. 2022, section 4.1, in 16 bits; and what becomes of it in 32.
    for s, h, a in ((2048, 4096, 32), (128, 96, 3)):
        layer = {}
        for w in (2, 4):
            one, two = (
                memory.activation_bytes(gpt_memory.Sizes(count, h, a, s, 11), 5, element_bytes=w)
                for count in (1, 2)
            )
            layer[w] = two - one
        assert layer == {
            2: s * 5 * (34 * h + 5 * a * s),
            4: s * 5 * (66 * h + 9 * a * s),
        }


@pytest.mark.parametrize("recompute", [False, True])
def test_the_formula_differs_from_the_tracker_by_what_the_docstring_says(
    session, memory, recompute
):
    sizes = (3, 96, 3, 40, 70)
    result = session.call("given/gpt_torch.py:kept", 1, (sizes, 2, 2, True, recompute))
    result.raise_for_error()
    assert result.values[0] == gpt_memory.num_parameters(gpt_memory.Sizes(*sizes))
    formula = memory.activation_bytes(gpt_memory.Sizes(*sizes), 2, recompute=recompute)
    norms = 1 + 2 * (1 if recompute else 3)
    extra = norms * 2 * 2 * 80 + 40 * 40 + 8 * 80  # mean and deviation; mask of attention; tokens
    assert 0 <= result.memory[0]["live"]["activations"] - formula - extra <= 16


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


def layers_drawn(rng, count):
    """Layers, a capacity between one of them and all, and a link about as fast as the GPU."""
    layers = [Layer(*(int(rng.integers(1, top)) for top in (10, 19, 31))) for _ in range(count)]
    nbytes = [layer.nbytes for layer in layers]
    capacity = max(*nbytes, int(sum(nbytes) * rng.uniform(0.25, 0.8)))
    pace = sum(nbytes) / sum(layer.forward_s for layer in layers)
    return layers, capacity, pace * float(rng.choice([0.2, 0.4, 0.8, 1.5]))


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
        layers, capacity, host = layers_drawn(rng, 6)
        plan, spans = rng.choice(CHOICES, size=6).tolist(), []
        time_s, peak = simulate(layers, plan, capacity, host, spans)
        if peak < np.inf:
            assert held(layers, plan, spans) == peak <= capacity
            busy = sum(s.end_s - s.begin_s for s in spans if s.stream == "compute")
            assert time_s >= busy - 1e-9


def test_a_plan_fits_when_what_is_kept_leaves_room_for_the_next_layer():
    rng = np.random.default_rng(5)
    for _ in range(200):
        layers, capacity, host = layers_drawn(rng, 5)
        plan, kept, fits = rng.choice(CHOICES, size=5).tolist(), 0, True
        for layer, choice in zip(layers, plan, strict=True):
            fits = fits and kept + layer.nbytes <= capacity
            kept += layer.nbytes if choice == "keep" else 0
        assert (makespan_s(layers, plan, capacity, host) < np.inf) == fits


def test_letting_the_last_layer_go_never_pays_and_the_reference_is_near_the_shortest(cases):
    rng = np.random.default_rng(6)
    for count in (5, 5, 5, 9):
        layers, capacity, host = layers_drawn(rng, count)
        numbers = tuple((layer.forward_s, layer.backward_s, layer.nbytes) for layer in layers)
        case = cases["Schedule"](numbers, capacity, host)
        assert case.reference_s <= 1.01 * case.shortest_s
        if count == 5:
            plans = itertools.product(CHOICES, repeat=count)
            best_s = min(makespan_s(layers, plan, capacity, host) for plan in plans)
            assert case.shortest_s == pytest.approx(best_s, rel=1e-12)


# -- lowbit ----------------------------------------------------------------------------------------


def test_codes_and_bytes_are_those_that_the_docstrings_show(session, cases):
    x = np.array([0.5, -2.54, 1.0, 0.3, 90, -127, 3.2], "float32")
    read = session.call("lowbit:all_gather", 1, [(x, 8, 4)]).values[0]
    scales = np.repeat([0.02, 1], [4, 3])
    np.testing.assert_allclose(read / scales, [25, -127, 50, 15, 90, -127, 3], rtol=1e-6)
    gathered = called(session, cases["Gathered"](4, 250, 4, 128))
    assert gathered.sent_bytes() == [399] * 4
    scattered = called(session, cases["Scattered"](4, 1000, 4, 128))
    assert np.asarray(scattered.bytes_matrix())[0].tolist() == [0, 266, 133, 0]
