"""The job template on real Slurm daemons: two nodes with their own network, name and /tmp."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside.trace import Trace

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slurm, pytest.mark.mpi]

MODULE = '''
import numpy as np


def all_reduce(comm, x):
    """Every rank's vector once round the ring."""
    total, travelling = x.copy(), x.copy()
    incoming = np.empty_like(x)
    for _ in range(comm.size - 1):
        next_rank, prev_rank = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        comm.Sendrecv(travelling, next_rank, recvbuf=incoming, source=prev_rank)
        travelling, incoming = incoming, travelling
        total += travelling
    return total


def hang(comm, x):
    comm.Recv(np.empty_like(x), source=(comm.rank + 1) % comm.size, tag=7)


def tail_dropped(comm, x):
    return all_reduce(comm, x)[:-1]


def stop(comm, x):
    if comm.rank == 3:
        raise ValueError("rank 3 has had enough")
    comm.Barrier()
'''


def launch(
    slurm: Any, folder: Path, target: str, *words: str, n: str = "1000"
) -> subprocess.CompletedProcess[str]:
    """`ringside launch` on the login node, on 2 nodes with 2 ranks each."""
    (folder / "ring.py").write_text(MODULE)
    command = [
        sys.executable,
        "-m",
        "ringside",
        "launch",
        target,
        "--site",
        "zaratan",
        "--nodes",
        "2",
    ]
    command += ["--set", "ranks_per_node=2", "--set", "memory_per_cpu=500M"]
    command += ["--set", f"exports=PYTHONPATH={ROOT}", *words, "--json", "--", "--n", n]
    return slurm.run(["env", f"PYTHONPATH={ROOT}", *command], cwd=folder)


def test_a_job_on_two_nodes_leaves_a_record_and_a_trace(slurm: Any, shared_folder: Path) -> None:
    result = launch(slurm, shared_folder, "ring.py:all_reduce")
    assert result.returncode == 0, result.stdout + result.stderr + slurm.logs()
    assert json.loads(result.stdout)["status"] == "complete"
    record = json.loads((shared_folder / "run.json").read_text())
    assert record["world_size"] == 4
    assert sorted(record["hosts"]) == ["node1", "node1", "node2", "node2"]
    assert record["job_id"] == json.loads(result.stdout)["job_id"]
    [measurement] = record["measurements"]
    assert (measurement["n"], measurement["nbytes"], measurement["values"]) == (1000, 8000, "right")
    assert len(measurement["times_s"]) == 5
    assert min(measurement["times_s"]) > 0
    trace = Trace.load(shared_folder / "run.trace.gz")
    assert trace.world_size == 4
    sent = [op.nbytes for op in trace.ops[0] if op.kind == 1]
    assert sent == [8000, 8000, 8000]


@pytest.mark.parametrize("launcher", ["srun --mpi=pmi2", "mpiexec"])
def test_both_launchers_of_the_wheel_get_all_ranks(
    slurm: Any, shared_folder: Path, launcher: str
) -> None:
    result = launch(slurm, shared_folder, "ring.py:all_reduce", "--set", f"launcher={launcher}")
    assert result.returncode == 0, result.stdout + result.stderr + slurm.logs()
    record = json.loads((shared_folder / "run.json").read_text())
    assert (record["world_size"], record["nodes"]) == (4, 2)


def test_a_launcher_that_starts_single_ranks_is_refused_with_the_cure(
    slurm: Any, shared_folder: Path
) -> None:
    result = launch(slurm, shared_folder, "ring.py:all_reduce", "--set", "launcher=srun --mpi=none")
    assert result.returncode == 2
    message = json.loads(result.stdout)["message"]
    assert "asked for 4 ranks, but this rank is one of 1" in message
    assert "--set launcher=" in message
    assert not (shared_folder / "run.json").exists()


def test_a_hang_ends_at_the_deadline_and_says_where_every_rank_is(
    slurm: Any, shared_folder: Path
) -> None:
    result = launch(slurm, shared_folder, "ring.py:hang", "--set", "deadline_s=2")
    assert result.returncode == 1
    message = json.loads(result.stdout)["message"]
    line = (
        MODULE.splitlines().index(
            "    comm.Recv(np.empty_like(x), source=(comm.rank + 1) % comm.size, tag=7)"
        )
        + 1
    )
    for rank in range(4):
        assert f"rank {rank}  Recv(source={(rank + 1) % 4}, tag=7)  ring.py:{line}" in message


def test_an_exception_names_the_rank_and_the_line(slurm: Any, shared_folder: Path) -> None:
    result = launch(slurm, shared_folder, "ring.py:stop")
    assert result.returncode == 1
    message = json.loads(result.stdout)["message"]
    line = next(k for k, text in enumerate(MODULE.splitlines(), 1) if "raise ValueError" in text)
    assert f"rank 3 raised ValueError at ring.py:{line}: rank 3 has had enough" in message


def test_the_attendees_lines_of_mpi_run_from_the_students_bundle(
    slurm: Any, shared_folder: Path
) -> None:
    from autograder.course.course import Course
    from autograder.publish import bundle

    tree = bundle.make(Course.here(), shared_folder / "ringside")
    page = (tree / "docs" / "attendee.md").read_text()
    [lines] = re.findall(r"^## MPI without.*?```sh\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    *_, write_module, run_it = lines.strip().splitlines()
    # This Slurm has no accounts and no reservations, and less memory than Zaratan.
    run_it = run_it.replace("--account NAME --reservation NAME", "--set memory_per_cpu=500M")
    run_it = run_it.replace("ringside ", f"{sys.executable} -m ringside ", 1)
    run_it += f" --set exports=PYTHONPATH={tree}"
    place = shared_folder / "ring"
    place.mkdir()
    script = f"export PYTHONPATH={tree}\n{write_module}\n{run_it}\n"
    result = slurm.run(["bash", "-ec", script], cwd=place)
    assert result.returncode == 0, result.stdout + result.stderr + slurm.logs()
    record = json.loads((place / "run.json").read_text())
    assert (record["world_size"], record["nodes"]) == (8, 2)
    assert {entry["values"] for entry in record["measurements"]} == {"right"}


def test_an_unknown_partition_is_sbatchs_refusal_with_the_cure(
    slurm: Any, shared_folder: Path
) -> None:
    result = launch(slurm, shared_folder, "ring.py:all_reduce", "--partition", "nowhere")
    assert result.returncode == 2
    assert "invalid partition" in result.stderr.lower()
    assert "sinfo -s" in result.stderr
