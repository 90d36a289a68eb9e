"""Jobs of torch.distributed on real Slurm daemons: srun, torchrun, and GPUs asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringside.trace import Kind, Trace

pytestmark = [pytest.mark.slurm]

RING = """
import torch.distributed as dist


def all_reduce(group, x):
    dist.all_reduce(x, group=group)
    return x


def stop(group, x):
    if dist.get_rank(group) == 1:
        raise ValueError("rank 1 has had enough")
    dist.all_reduce(x, group=group)
"""


@pytest.fixture
def folder(shared_folder: Path) -> Path:
    (shared_folder / "ring_torch.py").write_text(RING)
    return shared_folder


@pytest.mark.parametrize("launcher", ["srun", "torchrun"])
def test_gloo_ranks_of_two_nodes_find_each_other(
    slurm: Any, launch_command: Any, folder: Path, launcher: str
) -> None:
    command = launch_command(
        "ring_torch.py:all_reduce", "--nodes", "2", "--set", "ranks_per_node=1",
        "--set", f"torch_launcher={launcher}", "--json", after="--n 1000 --dtype float32",
    )  # fmt: skip
    result = slurm.run(command, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr + slurm.logs()
    record = json.loads((folder / "run.json").read_text())
    assert (record["kind"], record["launcher"]) == ("gloo", launcher)
    assert (record["world_size"], record["hosts"]) == (2, ["node1", "node2"])
    [measurement] = record["measurements"]
    assert (measurement["nbytes"], measurement["values"]) == (4000, "right")
    trace = Trace.load(folder / "run.trace.gz")
    assert [op.nbytes for op in trace.ops[0] if op.kind == Kind.COLLECTIVE] == [4000]


def test_an_exception_of_a_torch_rank_is_the_students_line_under_torchrun_too(
    slurm: Any, launch_command: Any, folder: Path
) -> None:
    command = launch_command(
        "ring_torch.py:stop", "--nodes", "2", "--set", "ranks_per_node=1",
        "--set", "torch_launcher=torchrun", "--json", after="--n 10",
    )  # fmt: skip
    result = slurm.run(command, cwd=folder)
    assert result.returncode == 1, result.stdout + result.stderr
    line = RING.splitlines().index('        raise ValueError("rank 1 has had enough")') + 1
    words = f"rank 1 raised ValueError at ring_torch.py:{line}: rank 1 has had enough"
    assert words in json.loads(result.stdout)["message"]


def test_gpus_are_asked_for_so_that_every_rank_sees_all_of_its_node(
    slurm: Any, launch_command: Any, folder: Path
) -> None:
    """The job's directives are the template's; its ranks only say what they see."""
    words = ("--nodes", "2", "--gpus-per-node", "2", "--dry-run")
    shown = slurm.run(launch_command("ring_torch.py:all_reduce", *words), cwd=folder)
    assert shown.returncode == 0, shown.stderr
    kept = ("#", "export SLURM_EXPORT_ENV")
    directives = [line for line in shown.stdout.splitlines() if line.startswith(kept)]
    sees = "srun bash -c 'echo $SLURMD_NODENAME $SLURM_LOCALID $CUDA_VISIBLE_DEVICES'\n"
    (folder / "sees.sbatch").write_text("\n".join([*directives, sees]))
    job_id = slurm.run(["sbatch", "--parsable", "--wait", "sees.sbatch"], cwd=folder).stdout.strip()
    log = (folder / "run.log").read_text()
    assert sorted(log.splitlines()) == [
        f"{node} {local} 0,1" for node in ("node1", "node2") for local in (0, 1)
    ]
    job = slurm.run(["scontrol", "show", "job", job_id]).stdout
    assert "TresPerNode=gres:gpu:a100:2" in job
    assert "Partition=gpu " in job
