"""The reference solutions of a07: against serial and torch's Adam, and within the closed forms."""

from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session
from ringside.checking.ring_bytes import sent_as_ring
from ringside.commands import cli
from solutions.a07_sharding import partition
from solutions.a07_sharding.adam import BETA1, BETA2, EPS, adam
from solutions.a07_sharding.hidden import oracle

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
