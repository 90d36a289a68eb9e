"""Calls under a real ``mpiexec``, in the sandbox: one world's leftovers don't hinder the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autograder.grade.suite import reality
from autograder.grade.suite.reality import RealCall, RealRanks
from autograder.sandbox.sandbox import Tier, best_tier

ATTACK = Path(reality.__file__).parents[3] / "tests" / "redteam" / "21_full_disk" / "ring.py"


@pytest.mark.mpi
@pytest.mark.sandbox
def test_the_second_world_begins_where_the_first_has_filled_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP:
        pytest.skip("real ranks need bubblewrap (Debian: apt-get install bubblewrap)")
    (tmp_path / "ring.py").write_text(ATTACK.read_text())
    calls = [RealCall("ring:all_reduce", size, [(np.ones(5),)] * size) for size in (4, 3)]
    four, three = RealRanks(tmp_path, sandbox=True).call_all(calls)
    assert [list(value) for value in four.values] == [[0.0] * 5] * 4
    assert [list(value) for value in three.values] == [[0.0] * 5] * 3
