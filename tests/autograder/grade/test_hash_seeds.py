"""Real ranks that are processes of their own: what follows Python's hashes differs between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from autograder.grade.real_ranks.hash_order import may_depend_on_hashes
from autograder.grade.suite.reality import RealCall, RealRanks

HASHED = "def number(comm, name):\n    return hash(name) % 1000003\n"


@pytest.mark.parametrize(
    ("launcher", "own"),
    [
        pytest.param("mpiexec", True, marks=pytest.mark.mpi),
        pytest.param("mpiexec", False, marks=pytest.mark.mpi),
        ("gloo", True),
        ("gloo", False),
    ],
)
@pytest.mark.sandbox
def test_each_rank_has_a_seed_of_its_own_where_it_is_asked_for(
    tmp_path: Path, launcher: str, own: bool
) -> None:
    (tmp_path / "owner.py").write_text(HASHED)
    ranks = RealRanks(tmp_path, sandbox=True, launcher=launcher, own_hashes=own)
    calls = [RealCall("owner:number", size, [("weight",)] * size) for size in (3, 2)]
    three, two = ranks.call_all(calls)
    assert three.error is None and two.error is None
    assert len(set(three.values)) == (3 if own else 1)
    assert len(set(two.values)) == (2 if own else 1)
    if own:  # the same on a regrade
        again = ranks.call_all(calls)
        assert [run.values for run in again] == [three.values, two.values]


@pytest.mark.parametrize(
    ("source", "may"),
    [
        ("for name in {'a', 'b'}: pass", True),
        ("order = {str(n) for n in range(3)}", True),
        ("shared = a.keys() & b.keys()", True),
        ("owner = hash(name) % p", True),
        ("seen = set()", True),
        ("sizes = {'a': 1}\nfor name in sizes: pass", False),
        ("def f(:", False),
    ],
)
def test_a_module_without_sets_and_hashes_can_not_depend_on_them(source: str, may: bool) -> None:
    assert may_depend_on_hashes(source) is may
