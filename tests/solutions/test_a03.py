"""The reference solutions of a03: on the network, on real ranks, and against their bounds."""

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autograder.course import edits
from autograder.grade.suite.reality import RealCall, RealRanks
from ringside import Machine, Session, replay
from ringside.checking import (
    Case,
    Verdict,
    assert_sum,
    buffered,
    long_wire,
    magnitude,
    public_tests,
    total,
)
from solutions.a03_allreduce import cost
from solutions.a03_allreduce.hidden import test_cost
from solutions.a03_allreduce.shards import shard_bounds

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a03_allreduce"
TARGETS = {
    "star": "star:all_reduce",
    "sharded_server": "sharded_server:all_reduce",
    "ring": "ring:all_reduce",
    "recursive_doubling": "recursive:recursive_doubling",
    "halving_doubling": "recursive:halving_doubling",
}
TREE = "tree:all_reduce"
CHUNKS = {"num_chunks": 3}
MODULES = ("star", "sharded_server", "ring", "recursive", "cost", "tree", "hierarchical")


def case(target, world_size, n, dtype="float64"):
    return Case(target, world_size, n, dtype, CHUNKS if target == TREE else {})


def trees(session, world_sizes):
    """What double_tree gives for each world size."""
    result = session.call("callers:trees", 1, [("tree:double_tree", list(world_sizes))])
    return dict(zip(world_sizes, result.raise_for_error().values[0], strict=True))


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


def zeros(world_size, n):
    return [(np.zeros(n),) for _ in range(world_size)]


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 73])
def test_shards_are_those_of_array_split(n, world_size):
    whole = np.arange(n)
    shards = [whole[slice(*shard_bounds(n, world_size, rank))] for rank in range(world_size)]
    for shard, expected in zip(shards, np.array_split(whole, world_size), strict=True):
        np.testing.assert_array_equal(shard, expected)


@pytest.mark.parametrize("target", [*TARGETS.values(), TREE])
def test_every_all_reduce_gives_the_serial_sum(session, target):
    rng = np.random.default_rng(3)
    for world_size in (1, 2, 3, 4, 6, 7, 8):
        for n in (0, 1, world_size - 1, world_size + 1, 10 * world_size + 3):
            for dtype in ("float32", "float64", "int64"):
                asked = case(target, world_size, n, dtype)
                vectors = asked.vectors(rng)
                result = session.call(
                    target, world_size, asked.arguments(vectors), machine=buffered()
                )
                assert_sum(result, vectors, asked)
                assert not any(result.inputs_changed)


@pytest.mark.mpi
@pytest.mark.parametrize("target", [*TARGETS.values(), TREE])
def test_real_ranks_and_the_network_give_the_same_values(session, target, tmp_path):
    for name in (*MODULES, "shards"):
        shutil.copy(SOLUTION / f"{name}.py", tmp_path)
    rng = np.random.default_rng(5)
    cases = [case(target, p, n, d) for p in (5, 4) for n in (1, 23) for d in ("float64", "int64")]
    inputs = [each.vectors(rng) for each in cases]
    calls = [
        RealCall(target, each.world_size, each.arguments(vectors))
        for each, vectors in zip(cases, inputs, strict=True)
    ]
    real = RealRanks(tmp_path, sandbox=False).call_all(calls)
    for each, vectors, run in zip(cases, inputs, real, strict=True):
        assert_sum(run, vectors, each)
        ours = session.call(target, each.world_size, each.arguments(vectors), machine=buffered())
        assert_sum(ours, vectors, each)
        if target != TREE:  # which adds in the order of arrival
            for a, b in zip(ours.values, run.values, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("world_size", [2, 3, 4, 6, 7, 8])
def test_closed_forms_are_the_time_of_the_reference(session, name, world_size):
    core = 1 << (world_size.bit_length() - 1)
    n = 3 * math.lcm(world_size, core)
    machine = Machine.load("textbook")
    result = session.call(TARGETS[name], world_size, zeros(world_size, n), machine=machine)
    predicted_s = getattr(cost, f"{name}_s")(8 * n, world_size, machine)
    assert result.makespan_s == pytest.approx(predicted_s, rel=1e-12)


def test_a_closed_form_of_one_rank_is_nothing():
    machine = Machine.load("textbook")
    assert [getattr(cost, f"{name}_s")(8, 1, machine) for name in TARGETS] == [0] * 5


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 8])
def test_choice_costs_at_most_5_percent_against_replay(session, world_size):
    for n in (1, 3, 10, 41, 150, 700, 2500, 12_000):
        results = {
            name: session.call(target, world_size, zeros(world_size, n))
            for name, target in TARGETS.items()
        }
        for machine in (
            Machine.load("textbook"),
            Machine("slow start", alpha_s=3e-5, beta_s_per_byte=1e-10),
        ):
            times = {name: replay(r.trace, machine).makespan_s for name, r in results.items()}
            chosen = cost.choose(8 * n, world_size, machine)
            assert times[chosen] <= 1.05 * min(times.values()), (n, machine.name, times)


def test_no_single_choice_is_right_everywhere():
    machine = Machine.load("textbook")
    chosen = {
        cost.choose(nbytes, p, machine) for nbytes in (8, 8000, 8_000_000) for p in (4, 7, 64)
    }
    assert chosen == {"recursive_doubling", "halving_doubling", "sharded_server"}
    # The ring is as fast as the sharded server in this model, so ties go to the first.


def test_double_tree_of_six_ranks_is_the_one_in_the_picture(session):
    first, second = trees(session, [6])[6]
    assert first == [1, 3, 1, -1, 5, 3]
    assert second == [2, 0, -1, 4, 2, 4]


def test_both_trees_are_spanning_and_share_no_inner_rank(session):
    for world_size, both in trees(session, range(1, 70)).items():
        inner = []
        for parents in both:
            assert parents.count(-1) == 1
            assert all(parents.count(rank) <= 2 for rank in range(world_size))
            for rank in range(world_size):
                edges, at = 0, rank
                while parents[at] >= 0:
                    edges, at = edges + 1, parents[at]
                assert edges <= math.ceil(math.log2(world_size)) + 1
            inner.append(set(parents) - {-1})
        assert not inner[0] & inner[1]


@pytest.mark.parametrize("world_size", [3, 6, 13])
def test_double_tree_keeps_its_bound(session, world_size):
    n, num_chunks, machine = 20_000, 8, long_wire()
    args = [(np.zeros(n), num_chunks)] * world_size
    result = session.call(TREE, world_size, args, machine=machine)
    chunk_s = machine.alpha_s + n / 2 / num_chunks * 8 * machine.beta_s_per_byte
    whole_s = 2 * 8 * n * machine.beta_s_per_byte
    assert result.makespan_s <= whole_s + 4 * math.ceil(math.log2(world_size)) * chunk_s
    assert sum(result.sent_bytes()) == 2 * (world_size - 1) * 8 * n


def test_ring_halves_send_all_shards_but_one(session):
    vectors = Case("ring:all_reduce", 4, 10).vectors(np.random.default_rng(0))
    result = session.call("ring:reduce_scatter", 4, [(vector,) for vector in vectors])
    assert result.sent_bytes() == [8 * (10 - len(value)) for value in result.values]
    for rank, value in enumerate(result.values):
        lo, hi = shard_bounds(10, 4, rank)
        np.testing.assert_allclose(
            value, total(vectors)[lo:hi], rtol=1e-12, atol=1e-12 * magnitude(vectors).max()
        )


def test_the_table_in_the_rings_docstring_is_what_the_ring_sends(session):
    # Rank r's shard s is one element that says so: 10 r + s.
    result = session.call(
        "ring:reduce_scatter", 4, [(np.arange(4.0) + 10 * rank,) for rank in range(4)]
    )
    text = (SOLUTION / "ring.py").read_text(encoding="utf-8")
    rows = re.findall(r"    step (\d) {4}(.*)\n", text)
    assert len(rows) == 3
    for step, row in rows:
        drawn = [int(cell[0]) for cell in re.findall(r"\d(?: \(\+\d\))?", row)]
        assert drawn == [(rank - int(step) - 1) % 4 for rank in range(4)]
    assert [float(value[0]) for value in result.values] == [60.0 + 4 * rank for rank in range(4)]


def test_public_tests_give_the_reference_100_points_a_module(tmp_path):
    for path in SOLUTION.glob("*.py"):
        shutil.copy(path, tmp_path)
    earned = {each.name: (each.earned, each.points) for each in public_tests.run(tmp_path).modules}
    assert earned == dict.fromkeys((*MODULES, "ring_torch"), (100, 100))


@pytest.mark.parametrize("world_size", [3, 4, 7])
def test_wildcards_posted_together_are_all_answered(tmp_path, world_size):
    source = edits.one(SOLUTION, "sharded_server__wildcards_with_tags").source
    (tmp_path / "sharded_server.py").write_text(source)
    shutil.copy(SOLUTION / "shards.py", tmp_path)
    with Session(tmp_path) as session:
        for n in (0, 2, 4, 13):
            asked = case(TARGETS["sharded_server"], world_size, n)
            vectors = asked.vectors(np.random.default_rng(n))
            for machine in (buffered(), Machine.load("textbook")):
                result = session.call(
                    asked.target, world_size, asked.arguments(vectors), machine=machine
                )
                assert_sum(result, vectors, asked)


def test_the_call_of_a_formula_that_raises_is_named_with_a_line_that_runs(tmp_path):
    for name in ("callers.py", "shards.py"):
        shutil.copy(SOLUTION / name, tmp_path)
    (tmp_path / "cost.py").write_text(
        "def ring_s(nbytes, world_size, machine):\n"
        "    return 1.0 / (world_size - 5) if nbytes else 0.0\n"
    )
    calls = [(nbytes, p, 1e-6, 1e-9) for p in (1, 5, 9) for nbytes in (0, 64, 128)]
    with Session(tmp_path) as session, pytest.raises(Verdict) as failed:
        test_cost.ask(session, "ring_s", calls)
    assert failed.value.sentence.startswith(
        "ring_s(64, 5, machine) with alpha_s = 1e-06, beta_s_per_byte = 1e-09: "
        "rank 0 raised ZeroDivisionError at cost.py:2"
    )
    words = [sys.executable, *shlex.split(failed.value.reproduce)[1:]]
    environment = {**os.environ, "PYTHONPATH": str(SOLUTION.parent.parent)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "ZeroDivisionError" in done.stderr
