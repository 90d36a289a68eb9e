"""The reference solutions of a07: on the network, beside torch's own, and against the oracles."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.checking.ring_bytes import sent_as_ring
from ringside.commands import cli
from solutions.a07_sharding import cases_torch, observed_torch, serial_torch

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a07_sharding"


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


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
        bound_s = observed_torch.schedule_s([length] * 6, spec["costs"], p, machine)
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
    words = shlex.split(call.reproduce)[1:]
    words[1] = str(SOLUTION / words[1])
    assert cli.main(words) == 0
    assert shown in capsys.readouterr().out


# -- hsdp_torch ------------------------------------------------------------------------------------


def test_a_step_of_hsdp_halves_that_of_plain_sharding_on_two_nodes(session):
    machine = Machine.load("zaratan").with_(kernel_overhead_s=0.0)
    lengths = [80_000] * 4
    hybrid = session.call("callers_torch:hsdp_step", 8, [(4, lengths)] * 8, machine=machine)
    plain = session.call("callers_torch:flat_step", 8, [(lengths,)] * 8, machine=machine)
    assert 0.4 < hybrid.makespan_s / plain.makespan_s < 0.6
