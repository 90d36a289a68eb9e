"""Calls on torch's own gloo, in the sandbox: values come back, and a rank's failure is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autograder.grade.suite.reality import RealCall, RealRanks
from autograder.sandbox.sandbox import Tier, best_tier

MODULE = """
import torch.distributed as dist

def summed(group, x):
    dist.all_reduce(x, group=group)
    return x

def raises(group, x):
    if dist.get_rank(group) == 1:
        raise ValueError("no gradient")
    return summed(group, x)
"""


@pytest.mark.sandbox
def test_gloo_gives_values_until_a_rank_fails(tmp_path: Path) -> None:
    if best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP:
        pytest.skip("gloo's ranks need bubblewrap (Debian: apt-get install bubblewrap)")
    (tmp_path / "module.py").write_text(MODULE)
    arguments = [(np.arange(3.0) * rank,) for rank in range(3)]
    ranks = RealRanks(tmp_path, sandbox=True, launcher="gloo")
    calls = [RealCall(f"module:{name}", 3, arguments) for name in ("summed", "raises", "summed")]
    first, second, third = ranks.call_all(calls)
    assert first.error is None
    np.testing.assert_array_equal(first.values, [[0.0, 3.0, 6.0]] * 3)
    assert "rank 1 raised ValueError at module.py:10: no gradient" in str(second.error)
    assert third.error is not None  # nothing is called after a failure
