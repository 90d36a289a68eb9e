"""How jobs end on real Slurm daemons, and what `ringside launch` says of each end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slurm, pytest.mark.mpi]

# A job of one rank that ends when the test says so.
WAITS = """
import time
from pathlib import Path

from mpi4py import MPI

deadline_s = time.monotonic() + 60
while not Path("go").exists():
    assert time.monotonic() < deadline_s, "nobody said go"
    time.sleep(0.1)
"""
ENDS = """
import os
import signal

import numpy as np


def grows(comm, x):
    ballast = []
    while comm.rank == 1:
        ballast.append(np.ones(4_000_000))  # 32 MB, and touched
    comm.Barrier()


def leaves(comm, x):
    if comm.rank == 1:
        os._exit(7)
    comm.Barrier()


def crashes(comm, x):
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    comm.Barrier()
"""
ONE_RANK = ("--set", "ranks_per_node=1", "--set", "checkpoint_signal_s=0")


@pytest.fixture
def folder(shared_folder: Path) -> Path:
    (shared_folder / "waits.py").write_text(WAITS)
    (shared_folder / "ends.py").write_text(ENDS)
    return shared_folder


@pytest.fixture
def node(slurm: Any) -> Iterator[int]:
    """A node that may be stopped; it is there again afterwards."""
    yield 3
    slurm.start_node(3)
    slurm.run(["scontrol", "update", "NodeName=node3", "State=RESUME"])
    up = "for _ in $(seq 300); do sinfo -h -n node3 -o %T | grep -q idle && exit; sleep 0.1; done"
    found = slurm.run(["bash", "-c", f"{up}; exit 1"])
    assert found.returncode == 0, slurm.run(["scontrol", "show", "node", "node3"]).stdout


def job_id_in(said: str) -> str:
    found = re.search(r"job (\d+): submitted", said)
    assert found, said
    return found[1]


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        (
            "grows",
            "out of memory",
            ["more memory than the 200M a core that it asked for", "memory_per_cpu="],
        ),
        ("leaves", "failed", ["rank 1 ended with exit status 7", "left no word"]),
        ("crashes", "failed", ["rank 1 crashed (Segmentation fault)"]),
    ],
)
def test_a_rank_that_goes_without_a_word_is_the_students_fault(
    slurm: Any, launch_command: Any, folder: Path, function: str, status: str, words: list[str]
) -> None:
    command = launch_command(
        f"ends.py:{function}", "--set", "ranks_per_node=2", "--set", "memory_per_cpu=200M",
        "--json", after="--n 4",
    )  # fmt: skip
    result = slurm.run(command, cwd=folder)
    assert result.returncode == 1, result.stdout + result.stderr + slurm.logs()
    outcome = json.loads(result.stdout)
    assert outcome["status"] == status, result.stderr
    for word in words:
        assert word in outcome["message"]


def test_ctrl_c_leaves_the_job_which_can_be_followed_again(
    slurm: Any, launch_command: Any, folder: Path
) -> None:
    begun = slurm.begin(launch_command("waits.py", *ONE_RANK), cwd=folder)
    said = slurm.listen(begun, ": RUNNING on node")
    job_id = job_id_in(said)
    slurm.interrupt(begun)
    said, _ = begun.communicate(timeout=30)
    assert f"job {job_id} goes on. `ringside launch --follow {job_id}` follows it" in said
    assert "Traceback" not in said
    assert begun.returncode == 130

    second = slurm.run(launch_command("waits.py", *ONE_RANK), cwd=folder)
    assert second.returncode == 2
    assert f"job {job_id} was launched with the same folder and hasn't ended" in second.stderr

    (folder / "go").touch()
    follow = launch_command("waits.py", "--follow", job_id)
    followed = slurm.run(follow, cwd=folder)
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert "complete: " in followed.stdout
    assert json.loads((folder / "run.json").read_text())["job_id"] == job_id

    again = slurm.run(follow, cwd=folder)
    assert again.returncode == 2
    assert "has been followed to its end" in again.stderr


def test_a_cancelled_job_is_nobodys_failure(slurm: Any, launch_command: Any, folder: Path) -> None:
    begun = slurm.begin(launch_command("waits.py", *ONE_RANK), cwd=folder)
    job_id = job_id_in(slurm.listen(begun, ": RUNNING on node"))
    slurm.run(["scancel", job_id])
    said, _ = begun.communicate(timeout=30)
    assert begun.returncode == 2
    assert "cancelled: somebody cancelled it (scancel)" in said


@pytest.mark.release
def test_a_job_whose_node_fails_runs_again_by_itself_or_says_whose_fault_it_is(
    slurm: Any, launch_command: Any, folder: Path, node: int
) -> None:
    on_node = [*ONE_RANK, "--set", f"directives=--nodelist=node{node}"]
    begun = slurm.begin(launch_command("waits.py", *on_node), cwd=folder)
    slurm.listen(begun, f": RUNNING on node{node}")
    once = [*ONE_RANK, "--set", f"directives=--nodelist=node{node},--no-requeue"]
    beside = folder / "beside"
    other = slurm.begin(launch_command("waits.py", *once, "--out", str(beside)), cwd=folder)
    slurm.listen(other, f": RUNNING on node{node}")
    slurm.stop_node(node)

    said, _ = other.communicate(timeout=60)
    assert other.returncode == 2, said
    assert "NODE_FAIL" in said
    assert f"node failure: one of its nodes (node{node}) failed" in said
    assert "that is the cluster's fault. Launch it again" in said

    said = slurm.listen(begun, "goes back to the queue")
    assert "Slurm starts it again by itself (start 2)" in said
    (folder / "go").touch()
    slurm.start_node(node)
    said, _ = begun.communicate(timeout=110)
    assert begun.returncode == 0, said + slurm.logs()
    assert "complete: " in said


@pytest.mark.release
def test_a_job_that_others_may_push_aside_runs_again_by_itself_or_says_so(
    slurm: Any, launch_command: Any, folder: Path
) -> None:
    words = [*ONE_RANK, "--partition", "scavenger", "--set", "directives=--requeue"]
    begun = slurm.begin(launch_command("waits.py", *words), cwd=folder)
    slurm.listen(begun, ": RUNNING on node3")
    once = [*ONE_RANK, "--partition", "scavenger", "--set", "directives=--no-requeue"]
    beside = folder / "beside"
    other = slurm.begin(launch_command("waits.py", *once, "--out", str(beside)), cwd=folder)
    slurm.listen(other, ": RUNNING on node3")
    slurm.run(["srun", "--nodelist=node3", "--exclusive", "--mem=0", "true"])

    said, _ = other.communicate(timeout=60)
    assert other.returncode == 2, said
    assert "preempted: another job took its nodes: partition scavenger lets" in said

    said = slurm.listen(begun, "goes back to the queue")
    assert "Slurm starts it again by itself (start 2)" in said
    (folder / "go").touch()
    said, _ = begun.communicate(timeout=60)
    assert begun.returncode == 0, said + slurm.logs()


@pytest.mark.parametrize(
    ("words", "end", "cure"),
    [
        ("--nodes 9", "impossible", "it asks for 9 nodes, and partition standard has 3"),
        ("--partition debug --set time=00:20:00", "impossible", "--set time=HH:MM:SS"),
    ],
)
def test_a_job_that_can_never_start_is_taken_out_of_the_queue(
    slurm: Any, launch_command: Any, folder: Path, words: str, end: str, cure: str
) -> None:
    result = slurm.run(launch_command("waits.py", *words.split(), "--json"), cwd=folder)
    assert result.returncode == 2, result.stdout + result.stderr
    outcome = json.loads(result.stdout)
    assert outcome["status"] == end
    assert cure in outcome["message"]
    assert outcome["message"].endswith("The job is cancelled.")
    left = slurm.run(["squeue", "-h", "-j", outcome["job_id"], "-t", "PENDING,RUNNING"])
    assert left.stdout == ""


@pytest.mark.parametrize(
    ("words", "said", "cure"),
    [
        ("--partition nowhere", "invalid partition specified: nowhere", "`sinfo -s` lists"),
        ("--set memory_per_cpu=900G", "Memory specification", "--set memory_per_cpu="),
        ("--reservation nobody", "reservation is invalid", "leave --reservation away"),
        ("--set directives=--gres=gpu:h100:1", "node configuration", "sinfo -o '%P %D nodes"),
        ("--set directives=--gres=tpu:1", "generic resource", "`sinfo -o '%P %G'` shows the GPUs"),
    ],
)
def test_what_sbatch_refuses_is_said_with_the_cure_and_leaves_nothing(
    slurm: Any, launch_command: Any, folder: Path, words: str, said: str, cure: str
) -> None:
    result = slurm.run(launch_command("waits.py", *words.split()), cwd=folder)
    assert result.returncode == 2
    assert "sbatch refused the job: " in result.stderr
    assert said in result.stderr
    assert cure in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["ends.py", "waits.py"]
