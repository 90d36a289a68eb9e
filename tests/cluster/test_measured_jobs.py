"""`autograder grade --measured` as a job array on real Slurm: a sandbox inside each task."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from autograder.grade.measured.hardware import cores
from autograder.sandbox.sandbox import Tier, best_tier

ROOT = Path(__file__).resolve().parents[2]
RING = ROOT / "solutions" / "a03_allreduce" / "ring.py"
pytestmark = [pytest.mark.slurm, pytest.mark.mpi, pytest.mark.sandbox]


def test_a_class_is_measured_by_an_array_inside_sandboxes(slurm: Any, shared_folder: Path) -> None:
    if best_tier(trust_submissions=True) not in Tier.IN_BUBBLEWRAP:
        pytest.skip("real ranks need bubblewrap (Debian: apt-get install bubblewrap)")
    if len(cores()) < 2:
        pytest.skip("two ranks want two cores")
    for student in ("ada", "bob"):
        (shared_folder / student).mkdir()
    shutil.copy(RING, shared_folder / "ada")
    (shared_folder / "bob" / "ring.py").write_text("def all_reduce(comm, x):\n    return x\n")
    command = [sys.executable, "-m", "autograder", "grade", "a03_allreduce", "ada", "bob"]
    command += ["--measured", "--ranks", "2", "--site", "zaratan", "--nodes", "2", "--json", "-"]
    command += ["--set", "memory_per_cpu=300M", "--set", f"exports=PYTHONPATH={ROOT}"]
    course = f"RINGSIDE_COURSE={shared_folder / 'course'}"
    result = slurm.run(["env", f"PYTHONPATH={ROOT}", course, *command], cwd=shared_folder)
    logs = [path.read_text() for path in (shared_folder / "course").rglob("logs/*.log")]
    assert result.returncode == 0, result.stdout + result.stderr + "".join(logs) + slurm.logs()
    ada, bob = json.loads(result.stdout)["submissions"]
    ring, recursive, ring_torch = ada["measured"]
    # How even this machine is, nobody knows; that it was tried in the sandbox of a node, we do.
    assert ring["status"] in ("measured", "refused"), ring["message"]
    assert ring["host"] in ("node1", "node2")
    assert ring["sandbox"] in Tier.IN_BUBBLEWRAP
    assert len(ring["student_s"]) == len(ring["reference_s"]) == 16
    assert recursive["message"] == "recursive.py was not written."
    assert (ring_torch["status"], ring_torch["credit"]) == ("not measured", 0.0)
    assert "Tests of its values fail" in bob["measured"][0]["message"]
    assert (ada["score"], ada["max_score"]) == (35.0, 110.0)
    assert len(logs) == 2
