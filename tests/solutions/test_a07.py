"""The reference solutions of a07: against serial and torch's Adam, and within the closed forms."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.checking.ring_bytes import sent_as_ring
from ringside.commands import cli
from solutions.a07_sharding import cases_torch, observed_torch, partition, serial_torch
from solutions.a07_sharding.adam import BETA1, BETA2, EPS, adam
from solutions.a07_sharding.hidden import oracle
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a07_sharding"
examples = oracle.examples


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


# -- partition, zero1, zero2 -----------------------------------------------------------------------


def test_views_undo_flatten_and_pieces_cover_every_element_once():
    rng = np.random.default_rng(3)
    for world_size in (1, 3, 4, 7, 40):
        params = [rng.standard_normal(shape) for shape in ((2, 3), (4,), (), (0, 2), (3, 1, 2))]
        params.insert(2, params[0])
        starts, shard_size = partition.layout(params, world_size)
        flat = partition.flatten(params, starts, world_size * shard_size)
        shapes = [p.shape for p in params]
        for view, param in zip(partition.views(flat, starts, shapes), params, strict=True):
            np.testing.assert_array_equal(view, param)
        owned = np.zeros(world_size * shard_size, int)
        for rank in range(world_size):
            found = partition.pieces(starts, shapes, shard_size, rank)
            assert found == oracle.pieces(starts, shapes, shard_size, rank)
            for index, begin, end in found:
                owned[starts[index] + begin : starts[index] + end] += 1
        assert owned.tolist() == [1] * 17 + [0] * (len(owned) - 17)


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


@pytest.mark.parametrize(("p", "n"), [(2, 6), (3, 10), (5, 3), (8, 1000)])
def test_steps_of_zero1_equal_serial_adam_within_the_bounds(session, p, n):
    training = examples.Training(p, n, "float64", 1, steps=3, decay=0.1, clip=1.0)
    arguments = [training.arguments(rank) for rank in range(p)]
    machine = Machine.load("textbook,flop_per_s=1e9")
    result = session.call("callers:zero1_steps", p, arguments, machine=machine).raise_for_error()
    params, norms = training.serial()
    for value in result.values:
        np.testing.assert_allclose(value[0], params, rtol=0, atol=1e-12)
        np.testing.assert_allclose(value[2], norms, rtol=1e-14)
        assert examples.state_nbytes(value[1]) <= examples.state_bound(n, p, 8)
    assert max(sent_as_ring(result)) <= 3 * oracle.step_bytes(n, p, 8)
    assert result.makespan_s <= 3.001 * oracle.step_seconds(n, p, 8, machine)


@pytest.mark.parametrize("p", [2, 5])
def test_shards_of_zero2_are_those_of_the_whole_gradient(session, p):
    asked = examples.Pass(p, 3, (5, 4, 6, 3), "float64", 2)
    arguments = [asked.arguments(rank) for rank in range(p)]
    result = session.call("callers:zero2_backward", p, arguments).raise_for_error()
    for rank, (value, shard) in enumerate(zip(result.values, asked.shards(), strict=True)):
        np.testing.assert_allclose(value[1], shard, rtol=0, atol=1e-14)
        np.testing.assert_allclose(value[0], asked.serial(rank)[0], rtol=0, atol=1e-14)
    assert max(sent_as_ring(result)) <= oracle.backward_bytes(asked.shard_size, p, 8)


@pytest.mark.parametrize(
    "words",
    [
        ["zero1_steps", "--n", "11", "--steps", "3", "--decay", "0.1", "--clip", "0.5"],
        ["zero2_backward", "--n", "3", "--widths", "4,6,2"],
    ],
)
def test_examples_are_compared_with_one_rank(words, capsys):
    function, *rest = words
    line = ["run", f"{SOLUTION}/callers.py:{function}", "--ranks", "3", "--", *rest]
    assert cli.main(line) == 0
    capsys.readouterr()


def test_the_measured_step_is_compared(capsys):
    line = ["run", f"{SOLUTION}/zero1.py:measured_step", "--ranks", "3", "--", "--n", "10"]
    assert cli.main(line) == 0
    assert "values: right" in capsys.readouterr().out


# -- zero3_torch -----------------------------------------------------------------------------------

NETWORK = {"widths": [6, 4, 8, 3], "costs": [1e-6, 2e-6]}


def test_zero3_and_fully_shard_train_alike_and_zero3_sends_less(session):
    p, options = 3, cases_torch.options_of()
    sample = cases_torch.sample_training(np.random.default_rng(3), NETWORK, p, steps=3)
    arguments = cases_torch.training_arguments(NETWORK, sample, options)
    mine = session.call("callers_torch:zero3_train", p, arguments).raise_for_error()
    whole = [each for layer in sample["params"] for each in layer]
    given = [(NETWORK, whole, steps, options) for steps in sample["steps"]]
    theirs = session.call("callers_torch:with_fully_shard", p, given).raise_for_error()
    wanted = serial_torch.train(sample["params"], sample["steps"], [[]] * p, options)
    right = [each for layer in wanted["params"] for each in layer]
    for values in theirs.values:
        for value, param in zip(values, right, strict=True):
            np.testing.assert_allclose(value, param, rtol=0, atol=1e-12)
    for rank, value in enumerate(mine.values):
        for shard, layer in zip(value["shards"], wanted["params"], strict=True):
            part = np.split(cases_torch.flat(layer, p), p)[rank]
            np.testing.assert_allclose(shard, part, rtol=0, atol=1e-12)
    total = sum(layer.nbytes for layer in cases_torch.sharded(NETWORK, p))
    last = cases_torch.sharded(NETWORK, p)[-1].nbytes
    assert sent_as_ring(mine) == [pytest.approx(3 * (3 * total - last) * (p - 1) / p)] * p
    given = [(*each[:3], options | {"whole": False}) for each in given]
    theirs = session.call("callers_torch:with_fully_shard", p, given).raise_for_error()
    assert max(sent_as_ring(mine)) < min(sent_as_ring(theirs))


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_a_step_of_zero3_takes_as_long_as_the_schedule_says(session, share):
    machine = Machine("slow wire", alpha_s=1e-6, beta_s_per_byte=1e-6)
    spec = {"widths": [12] * 7}
    length = cases_torch.lengths_of(spec, 4)[0]
    backward_s = 2 * observed_torch.ring_s(length, 8, machine) * share
    spec["costs"] = [backward_s / 2, backward_s]
    sample = cases_torch.sample_training(np.random.default_rng(3), spec, 4, steps=1)
    arguments = cases_torch.training_arguments(spec, sample, cases_torch.options_of())
    result = session.call("callers_torch:zero3_train", 4, arguments, machine=machine)
    for p in (4, 8, 32):
        took_s = replay(observed_torch.stretched(result.trace, p), machine).makespan_s
        bound_s = observed_torch.schedule_s([length] * 6, spec["costs"], p, machine, again=False)
        assert 0.97 * bound_s < took_s < 1.001 * bound_s


def test_a_step_stretched_to_8_ranks_takes_as_long_as_one_that_ran_there(session):
    machine, took_s = Machine.load("zaratan"), []
    spec = {"widths": [16] * 5, "bias": False, "costs": [2e-6, 4e-6]}
    for p in (4, 8):
        sample = cases_torch.sample_training(np.random.default_rng(3), spec, p, steps=1)
        arguments = cases_torch.training_arguments(spec, sample, cases_torch.options_of())
        result = session.call("callers_torch:zero3_train", p, arguments, machine=machine)
        trace = observed_torch.stretched(result.trace, 8)
        took_s.append(replay(trace, machine).makespan_s)
    assert took_s[0] == pytest.approx(took_s[1], rel=1e-2)  # optimizers work on shards


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (cases_torch.zero3_call(2, NETWORK, evaluate=True, microbatches=2), "returned"),
        (cases_torch.zero3_call(3, NETWORK | {"dtype": "float32"}, optimizer="adam"), "returned"),
        (cases_torch.hsdp_call("gather", 2, 2, (4, 2), "float32"), "values: right"),
        (cases_torch.hsdp_call("synchronise", 2, 1, (4, 2)), "values: right"),
    ],
    ids=str,
)
def test_a_torch_line_that_reproduces_runs(call, shown, capsys):
    assert shown in typed_line.output_of(call.reproduce, SOLUTION, capsys)


# -- hsdp_torch ------------------------------------------------------------------------------------


def test_a_step_of_hsdp_halves_that_of_plain_sharding_on_two_nodes(session):
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0)
    lengths = [80_000] * 4
    hybrid = session.call("callers_torch:hsdp_step", 8, [(4, lengths)] * 8, machine=machine)
    plain = session.call("callers_torch:flat_step", 8, [(lengths,)] * 8, machine=machine)
    assert 0.4 < hybrid.makespan_s / plain.makespan_s < 0.6
