"""A real class is graded while its grader is killed again and again: nothing is lost or left.

The moments are drawn from `SEED`, so that every commit tries the same ones.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.sandbox.sandbox import Tier, best_tier
from tests.autograder.conftest import KIT
from tests.autograder.killed_class import SHARES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.sandbox,
    pytest.mark.skipif(
        not sys.platform.startswith("linux")
        or best_tier(trust_submissions=True) != Tier.BUBBLEWRAP,
        reason="its moments are those of bubblewrap (Debian: apt-get install bubblewrap)",
    ),
]
SEED = 3
KILLS = sum(SHARES.values())


def test_kills_at_any_moment_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(KIT),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RINGSIDE_COURSE_SECRET": "a secret",
    }
    answer = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / "killed_class.py"),
         str(tmp_path), str(SEED), str(KILLS)],
        cwd=KIT, env=environment, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, f"{SEED=}\n{answer.stdout[-3000:]}{answer.stderr[-3000:]}"
    found = json.loads(answer.stdout)
    kills, ends = found["kills"], found["ends"]

    # Dead in each phase, alone and with all its processes.
    assert len(kills) == KILLS
    for phase, share in SHARES.items():
        assert sum(kill["phase"] == phase for kill in kills) == share
    assert sum(kill["everybody"] for kill in kills) == KILLS // 3
    # What was finished was not done again, and each class ended as the one nobody touched.
    assert found["differences"] == []
    assert found["repeated"] == 0
    assert found["rounds"] >= 1
    assert found["scores"]["ada"] == 40.0
    assert 0 < found["scores"]["student0"] < 25 and found["scores"]["zoe"] == 0.0
    # Every process of a killed grader has ended (the script waits for them), and soon. A grader
    # that was killed alone leaves no file either; one that died with all the others leaves one
    # folder, which the next one removes.
    assert all(kill["mounts"] == 0 for kill in kills)
    for kill in kills:
        assert len(kill["left"]) <= 1
        if not kill["everybody"] and kill["phase"] in ("start", "suite", "store"):
            assert kill["left"] == [], kill
    assert all(end["left"] == [] for end in ends)
