"""The references of a03: against their closed forms, their bounds and real ranks."""

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from autograder.course import edits
from autograder.grade.suite.reality import RealCall, RealRanks
from ringside import Machine, Session, replay
from ringside.checking import case_files
from ringside.checking.suite import arguments, called
from solutions.a03_allreduce import cost
from solutions.a03_allreduce.given.shards import shard_bounds

SOLUTION = Path(__file__).resolve().parents[2] / "solutions" / "a03_allreduce"
KINDS = {
    "star": "Star",
    "sharded_server": "Server",
    "ring": "Ring",
    "recursive_doubling": "Doubling",
    "halving_doubling": "Halving",
}


@pytest.fixture(scope="module")
def session():
    with Session(SOLUTION) as session:
        yield session


@pytest.fixture(scope="module")
def cases():
    return {kind.__name__: kind for kind in case_files.classes(SOLUTION)}


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 73])
def test_shards_are_those_of_array_split(n, world_size):
    whole = np.arange(n)
    shards = [whole[slice(*shard_bounds(n, world_size, rank))] for rank in range(world_size)]
    for shard, expected in zip(shards, np.array_split(whole, world_size), strict=True):
        np.testing.assert_array_equal(shard, expected)


@pytest.mark.mpi
@pytest.mark.parametrize("name", KINDS.values())
def test_real_ranks_and_the_network_give_the_same_bits(session, cases, name, tmp_path):
    calls = [cases[name](p, n, d) for p in (5, 4) for n in (1, 23) for d in ("float64", "int64")]
    shutil.copytree(SOLUTION / "given", tmp_path / "given")
    shutil.copy(SOLUTION / f"{calls[0].module}.py", tmp_path)
    real = RealRanks(tmp_path, sandbox=False).call_all(
        [RealCall(case.target, case.p, arguments(case)) for case in calls]
    )
    for case, run in zip(calls, real, strict=True):
        case.check(run)
        for a, b in zip(called(session, case).values, run.values, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("world_size", [2, 3, 4, 6, 7, 8])
def test_closed_forms_are_the_time_of_the_reference(session, cases, name, world_size):
    core = 1 << (world_size.bit_length() - 1)
    case = cases[KINDS[name]](world_size, 3 * math.lcm(world_size, core), machine="textbook")
    machine = Machine.load("textbook")
    predicted_s = getattr(cost, f"{name}_s")(case.nbytes, world_size, machine)
    assert called(session, case).makespan_s == pytest.approx(predicted_s, rel=1e-12)
    assert case.bound_s(machine) == pytest.approx(predicted_s, rel=1e-12)


def test_a_closed_form_of_one_rank_is_nothing():
    machine = Machine.load("textbook")
    assert [getattr(cost, f"{name}_s")(8, 1, machine) for name in KINDS] == [0] * 5


@pytest.mark.parametrize("world_size", [2, 3, 4, 5, 8])
def test_choice_costs_at_most_5_percent_against_replay(session, cases, world_size):
    for n in (1, 3, 10, 41, 150, 700, 2500, 12_000):
        results = {name: called(session, cases[KINDS[name]](world_size, n)) for name in KINDS}
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


def trees(session, world_sizes):
    """What double_tree gives for each world size."""
    calls = [(world_size,) for world_size in world_sizes]
    run = session.call("ringside.checking.inside:several", 1, [("tree:double_tree", calls)])
    return [answer for answer, _, _ in run.raise_for_error().values[0]]


def test_double_tree_of_six_ranks_is_the_one_in_the_picture(session):
    ((first, second),) = trees(session, [6])
    assert first == [1, 3, 1, -1, 5, 3]
    assert second == [2, 0, -1, 4, 2, 4]


def test_both_trees_share_no_inner_rank(session):
    for first, second in trees(session, range(1, 70)):
        assert not (set(first) & set(second)) - {-1}


@pytest.mark.parametrize("world_size", [3, 6, 13])
def test_double_tree_keeps_its_bound(session, cases, world_size):
    case = cases["Tree"](world_size, 20_000, num_chunks=8, machine="long wire")
    run = called(session, case)
    assert run.makespan_s <= case.bound_s(run.machine)
    assert sum(run.sent_bytes()) == 2 * (world_size - 1) * case.nbytes


def test_ring_halves_send_all_shards_but_one(session, cases):
    run = called(session, cases["Scatter"](4, 10))
    assert run.sent_bytes() == [8 * (10 - len(value)) for value in run.values]


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


@pytest.mark.parametrize("world_size", [3, 4, 7])
def test_wildcards_posted_together_are_all_answered(cases, tmp_path, world_size):
    source = edits.one(SOLUTION, "sharded_server__wildcards_with_tags").source
    (tmp_path / "sharded_server.py").write_text(source)
    shutil.copytree(SOLUTION / "given", tmp_path / "given")
    with Session(tmp_path) as session:
        for n in (0, 2, 4, 13):
            for machine in ("buffered", "textbook"):
                case = cases["Server"](world_size, n, seed=n, machine=machine)
                case.check(called(session, case))
