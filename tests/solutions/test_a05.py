"""The reference solutions of a05: on the network, on real gloo ranks, and against the oracles."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ringside import Machine, Session, replay
from ringside.timing.extrapolation import widen
from solutions.a05_ddp.cases import (
    average_call,
    ddp_call,
    fusion_call,
    greedy,
    ring_s,
    step_call,
)
from solutions.a05_ddp.hidden import oracle, oracle_torch
from solutions.a05_ddp.model import random_parameters
from tests.solutions import typed_line

ROOT = Path(__file__).resolve().parents[2]
SOLUTION = ROOT / "solutions" / "a05_ddp"
WIDTHS, BATCH = (24,) * 5, 3


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


def step(session, rng, p, buckets, machine, work=1.0):
    """One step of overlap; parameters, batches and the result."""
    params = random_parameters(WIDTHS, rng)
    batches = [[tuple(rng.standard_normal((2, BATCH, 24)))] for _ in range(p)]
    arguments = [(params, own, buckets, 0.1, work) for own in batches]
    result = session.call("callers:overlapped", p, arguments, machine=machine).raise_for_error()
    return params, batches, result


def test_a_step_equals_serial_training_within_the_closed_form(session):
    machine = Machine.load("textbook")
    rng = np.random.default_rng(5)
    sizes = [param.nbytes for param in random_parameters(WIDTHS, rng)]
    for p in (2, 5):
        buckets = greedy(sizes, 5000)
        work = oracle.work_for(random_parameters(WIDTHS, rng), BATCH, buckets, p, machine)
        params, batches, result = step(session, rng, p, buckets, machine, work)
        wanted = oracle.train(params, batches, 0.1)
        for value in result.values:
            for mine, right in zip(value["params"], wanted["params"], strict=True):
                np.testing.assert_allclose(mine, right, rtol=0, atol=1e-12)
        bound_s = oracle.step_s(params, BATCH, work, buckets, p, machine)
        assert 0.8 * bound_s < result.makespan_s <= 1.001 * bound_s  # latencies may overlap


def test_a_step_widened_to_24_ranks_takes_as_long_as_one_that_ran_there(session):
    machine = Machine.load("textbook")
    sizes = [param.nbytes for param in random_parameters(WIDTHS, np.random.default_rng(5))]
    buckets = greedy(sizes, 10_000)
    _, _, few = step(session, np.random.default_rng(5), 4, buckets, machine, 1000.0)
    _, _, many = step(session, np.random.default_rng(5), 24, buckets, machine, 1000.0)
    assert replay(widen(few.trace, 24), machine).makespan_s == many.makespan_s


def test_finish_s_and_assign_buckets_agree_with_the_suites_own(session):
    rng = np.random.default_rng(7)
    cuts, ends = [], []
    for _ in range(30):
        sizes = [int(each) for each in rng.integers(0, 300, size=int(rng.integers(0, 12)))]
        cuts.append((sizes, int(rng.integers(1, 900)), int(rng.integers(1, 900))))
        buckets = oracle.assign(*cuts[-1])
        ready_s = np.cumsum(rng.random(len(sizes)))[::-1].tolist()
        ends.append((ready_s, 20 * float(rng.random()), buckets, rng.random(len(buckets)).tolist()))
    for target, calls in (("buckets:assign_buckets", cuts), ("overlap:finish_s", ends)):
        result = session.call("callers:several", 1, [(target, calls)]).raise_for_error()
        for call, (value, error, changed) in zip(calls, result.values[0], strict=True):
            assert error is None and not changed
            if target == "buckets:assign_buckets":
                assert value == oracle.assign(*call), call
            else:
                assert value == pytest.approx(oracle.finish_s(*call)), call


def test_the_ring_of_a_bucket_is_the_networks(session):
    machine = Machine.load("textbook")
    arguments = [("average", [np.ones(700)], ([[0]],), False)] * 7
    result = session.call("callers:averaged", 7, arguments, machine=machine).raise_for_error()
    assert result.makespan_s == pytest.approx(ring_s(5600, 7, machine), rel=1e-12)


GLOO = """
import sys
import numpy as np
import torch.distributed as dist
from ringside.network.codec import decode, encode
from ringside.pytorch.tensors import from_arrays, to_arrays
from callers_torch import train

rank, store, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
arguments = from_arrays(decode(open(path, "rb").read())[rank])
value = train(dist.group.WORLD, *arguments)
open(f"{path}.{rank}", "wb").write(encode(to_arrays(value)))
dist.destroy_process_group()
"""


def test_ddp_trains_alike_on_the_network_and_on_gloo(session, tmp_path):
    from ringside.network import codec

    spec = {"width": 5, "num_layers": 4, "tied": [(0, 2)], "frozen": [1], "buffers": True}
    net = oracle_torch.Replica(spec)
    rng = np.random.default_rng(11)
    paths = [[[0, 1, 2, 3]] * 2, [[3, 0]] * 2]  # rank 1 uses other layers, in another order
    options = {"bucket_bytes": 250, "lr": 0.2, "momentum": 0.5, "set_to_none": True}
    arguments = []
    for rank in range(2):
        steps = [[(*rng.standard_normal((2, 3, 5)), path)] * 2 for path in paths[rank]]
        params = [rng.standard_normal(shape) / 2 for shape in net.shapes]
        buffers = [each + rank for each in net.buffers()]
        arguments.append((spec, params, [np.asarray(each) for each in buffers], steps, options))
    (tmp_path / "job").write_bytes(codec.encode(arguments))
    words = [sys.executable, "-c", GLOO]
    environment = {"PYTHONPATH": f"{ROOT}:{SOLUTION}", "OMP_NUM_THREADS": "1", "PATH": ""}
    ranks = [
        subprocess.Popen(
            [*words, str(rank), str(tmp_path / "store"), str(tmp_path / "job")], env=environment
        )
        for rank in range(2)
    ]
    ours = session.call("callers_torch:train", 2, arguments).raise_for_error()
    for rank in ranks:  # what it left is compared, whatever gloo's threads do at its end
        rank.wait(timeout=120)
    wanted = oracle_torch.train(
        spec, arguments[0][1], arguments[0][2], [a[3] for a in arguments], options
    )
    for rank in range(2):
        theirs = codec.decode((tmp_path / f"job.{rank}").read_bytes())
        for name in ("params", "buffers", "begin", "outputs"):
            for a, b in zip(ours.values[rank][name], theirs[name], strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-13)
        for a, b in zip(theirs["params"], wanted["params"], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (average_call(2, [3, 2], [[1, 0]], "float32"), "dtype=float32"),
        (fusion_call(2, [3, 2], 16, "float32"), "dtype=float32"),
        (step_call(2, (4, 3, 2), [[3, 2], [1, 0]], "float32"), "on 2 ranks of machine 'laptop'"),
        (ddp_call(2, "plain", 1000), ""),
    ],
    ids=str,
)
def test_a_line_that_reproduces_runs_with_its_dtype_machine_and_seed(call, shown, capsys):
    line = dataclasses.replace(call, where="--machine laptop --seed 3").reproduce
    assert shown in typed_line.output_of(line, SOLUTION, capsys)
