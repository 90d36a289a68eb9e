"""`ringside fit` on two nodes of a real Slurm: links inside a node and between nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside.timing.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slurm, pytest.mark.mpi]


def test_a_job_on_two_nodes_becomes_a_machine(slurm: Any, shared_folder: Path) -> None:
    command = ["-m", "ringside", "fit", "--site", "zaratan", "--nodes", "2", "--out", "m.toml"]
    for change in ("ranks_per_node=2", "memory_per_cpu=500M", f"exports=PYTHONPATH={ROOT}"):
        command += ["--set", change]
    done = slurm.run(
        ["env", f"PYTHONPATH={ROOT}", sys.executable, *command, "--json"], cwd=shared_folder
    )
    assert done.returncode == 0, done.stdout + done.stderr + slurm.logs()
    machine = Machine.load(shared_folder / "m.toml")
    assert set(json.loads(done.stdout)["links"]) == {"inside", "between"}
    assert machine.ranks_per_node == 2
    assert machine.intra_alpha_s is not None and machine.alpha_s > 0
    assert "between two nodes" in machine.sources["alpha_s"]
    assert "inside a node" in machine.sources["intra_alpha_s"]
    assert "node1, node2" in machine.sources["intra_beta_s_per_byte"]
    assert sorted(path.name for path in shared_folder.iterdir()) == ["m.svg", "m.toml"]
