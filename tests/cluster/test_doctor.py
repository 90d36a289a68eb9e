"""`ringside doctor --cluster` inside jobs of a real Slurm on two nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slurm, pytest.mark.mpi]

DOCTOR = [sys.executable, "-m", "ringside", "doctor", "--cluster", "--json"]
NODES = ["-N2", "--ntasks-per-node=2"]


def examine(slurm: Any, folder: Path, *command: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and the findings by name."""
    environment = ["env", f"PYTHONPATH={ROOT}", "OMP_NUM_THREADS=1"]
    done = slurm.run([*environment, *command, *DOCTOR], cwd=folder)
    try:
        findings = json.loads(done.stdout)
    except ValueError:
        raise AssertionError(done.stdout + done.stderr + slurm.logs()) from None
    return done.returncode, {finding["name"]: finding for finding in findings}


def test_ranks_of_srun_on_two_nodes(slurm: Any, shared_folder: Path) -> None:
    status, said = examine(slurm, shared_folder, "srun", "--mpi=pmi2", *NODES)
    assert said["Slurm"]["detail"].startswith("job ")
    assert said["Slurm"]["detail"].endswith(" on mini, started by srun")
    assert said["ranks"]["detail"].startswith("4 ranks, mpi4py")
    assert said["nodes"]["detail"] == "2 (node1: 2, node2: 2)"
    assert said["folder"]["works"] and said["all-reduce"]["works"]
    assert "GB/s" in said["inside a node"]["detail"]
    assert "GB/s" in said["between nodes"]["detail"]
    wrong = [one for one in said.values() if one["needed"] and not one["works"]]
    assert status == (2 if wrong else 0)


def test_a_launcher_that_does_not_fit_has_one_speaker(slurm: Any, shared_folder: Path) -> None:
    status, said = examine(slurm, shared_folder, "srun", "--mpi=none", *NODES)
    assert status == 2
    assert said["ranks"]["detail"].startswith("asked for 4 ranks, got 1 ranks")
    assert "--mpi=pmi2" in said["ranks"]["mend"]


def test_a_folder_of_one_node_alone_is_found(slurm: Any, shared_folder: Path) -> None:
    status, said = examine(slurm, shared_folder, "srun", "--mpi=pmi2", "-N2", "-n2", "--chdir=/tmp")
    assert status == 2
    assert said["folder"]["detail"] == "/tmp: rank 1 on node2 doesn't see it"


def test_alone_in_an_allocation_it_starts_the_ranks(slurm: Any, shared_folder: Path) -> None:
    _, said = examine(slurm, shared_folder, "salloc", "--quiet", "-N2", "-n2")
    assert said["nodes"]["detail"] == "2 (node1: 1, node2: 1)"
    assert "between nodes" in said and "inside a node" not in said
