"""Accounts and their limits, and Slurm's own memory of jobs, with slurmdbd and MariaDB."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slurm, pytest.mark.mpi]

SHORT = "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
ONE_RANK = ("--set", "ranks_per_node=1", "--set", "checkpoint_signal_s=0")
FORGETFUL = """#!/bin/sh
echo "slurm_load_jobs error: Invalid job id specified" >&2
exit 1
"""
# What `ringside launch --follow` asks, where slurmctld has forgotten the job.
FOLLOW = """
import sys
from pathlib import Path

from ringside.jobs.launch import slurm

ended = slurm.follow(sys.argv[1], Path("run.log"), print)
print(ended.end, ended.state, ended.exit_code, ended.meaning, sep="|")
"""


@pytest.fixture
def folder(shared_folder: Path) -> Path:
    (shared_folder / "short.py").write_text(SHORT)
    return shared_folder


def test_an_account_of_another_is_refused_with_the_cure(
    accounting_slurm: Any, launch_command: Any, folder: Path
) -> None:
    command = launch_command("short.py", *ONE_RANK, "--account", "nobodys-aac")
    result = accounting_slurm.run(command, cwd=folder)
    assert result.returncode == 2
    assert "Invalid account or account/partition combination" in result.stderr
    assert "Name yours with --account NAME" in result.stderr


def test_a_partition_that_allows_less_time_is_refused_with_the_cure(
    accounting_slurm: Any, launch_command: Any, folder: Path
) -> None:
    words = ("--partition", "debug", "--set", "time=00:20:00")
    result = accounting_slurm.run(launch_command("short.py", *ONE_RANK, *words), cwd=folder)
    assert result.returncode == 2
    assert "time limit is invalid" in result.stderr
    assert "shows how long each partition lets jobs run: --set time=HH:MM:SS" in result.stderr


def test_more_nodes_than_there_are_is_refused_with_the_cure(
    accounting_slurm: Any, launch_command: Any, folder: Path
) -> None:
    result = accounting_slurm.run(launch_command("short.py", *ONE_RANK, "--nodes", "9"), cwd=folder)
    assert result.returncode == 2
    assert "sbatch refused the job: " in result.stderr
    assert "Ask for fewer nodes" in result.stderr


def test_a_job_of_an_account_without_units_waits_and_says_why(
    accounting_slurm: Any, launch_command: Any, folder: Path
) -> None:
    words = (*ONE_RANK, "--account", "dry-aac")
    begun = accounting_slurm.begin(launch_command("short.py", *words), cwd=folder)
    said = accounting_slurm.listen(begun, "AssocGrpCPUMinutesLimit")
    assert "the account has no units left" in said
    assert "--account NAME charges another account" in said
    accounting_slurm.run(["scancel", "--user", "root"])
    said, _ = begun.communicate(timeout=30)
    assert begun.returncode == 2
    assert "cancelled: " in said


def test_a_job_that_slurmctld_has_forgotten_is_looked_up_in_the_accounts(
    accounting_slurm: Any, launch_command: Any, folder: Path
) -> None:
    command = launch_command("short.py", *ONE_RANK, "--account", "class-aac", "--json")
    result = accounting_slurm.run(command, cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr + accounting_slurm.logs()
    failing = accounting_slurm.run(["sbatch", "--parsable", "--wrap", "exit 7"], cwd=folder)
    ids = [json.loads(result.stdout)["job_id"], failing.stdout.strip()]
    (folder / "scontrol").write_text(FORGETFUL)
    (folder / "scontrol").chmod(0o755)
    (folder / "follow.py").write_text(FOLLOW)
    ends = []
    for job_id in ids:
        accounting_slurm.run(
            [
                "bash",
                "-c",
                f"until sacct -X -n -P -o State -j {job_id} | grep -qE 'ED$'; do sleep 0.1; done",
            ]
        )
        path = f"{folder}:{os.environ['PATH']}:/usr/sbin"
        root = str(Path(__file__).resolve().parents[2])
        follow = ["env", f"PATH={path}", f"PYTHONPATH={root}", sys.executable, "follow.py", job_id]
        said = accounting_slurm.run(follow, cwd=folder)
        ends.append(said.stdout.splitlines()[-1].split("|", 3))
    assert ends[0] == ["done", "COMPLETED", "0:0", ""]
    assert ends[1][:3] == ["failed", "FAILED", "7:0"]
    assert "the job's script ended with exit status 7" in ends[1][3]


RING = """
import numpy as np


def all_reduce(comm, x):
    total = np.empty_like(x)
    comm.Allreduce(x, total)
    return total
"""
# What `autograder grade` makes of a run.json, where Slurm's accounting can be asked.
VOUCH = """
import json
from pathlib import Path

from autograder.course.assignment import RunSpec
from autograder.collect import cluster_run

source = Path("ring.py").read_text()
true = json.loads(Path("run.json").read_text())
for change in ({}, {"hosts": ["node1", "node9"]}, {"started_utc": "2026-01-01T00:00:00+00:00"},
               {"job_id": "999999"}, {"job_id": None}):
    Path("run.json").write_text(json.dumps(true | change))
    found = cluster_run.check(RunSpec("run", "ring", 5.0), Path(), source, "")
    print(found.points, found.waits, found.findings[-1][1], sep="|")
"""


def test_a_run_is_checked_against_the_job_that_slurm_accounted_for(
    accounting_slurm: Any, launch_command: Any, shared_folder: Path
) -> None:
    (shared_folder / "ring.py").write_text(RING)
    (shared_folder / "vouch.py").write_text(VOUCH)
    words = (*ONE_RANK, "--nodes", "2", "--account", "class-aac", "--json")
    command = launch_command("ring.py:all_reduce", *words, after="--n 100")
    result = accounting_slurm.run(command, cwd=shared_folder)
    assert result.returncode == 0, result.stdout + result.stderr + accounting_slurm.logs()
    job_id = json.loads(result.stdout)["job_id"]
    # The end may be accounted for before the rest of what the accounting is told of a job.
    wanted = "ringside-ring|COMPLETED|node[1-2]"
    asked = f"sacct -X -n -P -o JobName%99,State,NodeList -j {job_id}"
    accounting_slurm.run(
        ["bash", "-c", f"until {asked} | grep -qxF '{wanted}'; do sleep 0.1; done"]
    )
    python = ["env", f"PYTHONPATH={ROOT}", sys.executable, "vouch.py"]
    said = accounting_slurm.run(python, cwd=shared_folder)
    assert said.returncode == 0, said.stderr
    found = [line.split("|") for line in said.stdout.splitlines()]
    assert [each[:2] for each in found] == [
        ["5.0", "False"], ["0.0", "False"], ["0.0", "False"], ["0.0", "True"], ["0.0", "True"]
    ], found  # fmt: skip
    assert found[0][2].startswith(f"Slurm's accounting vouches for job {job_id}: root ran it")
    assert "it ran on node1, node2, and the run on node9" in found[1][2]
    assert "and the run began at 2026-01-01T00:00:00" in found[2][2]
    assert "knows no job 999999" in found[3][2]


# What `autograder grade --executor slurm` asks, where slurmctld has forgotten an array.
TASKS = """
import sys

from ringside.jobs.launch import slurm_array

ends = slurm_array.recorded(sys.argv[1])
print(sorted((task, look.state, look.exit_code) for task, look in ends.items()))
"""


def test_a_class_is_graded_in_as_few_tasks_as_the_account_may_submit(
    accounting_slurm: Any, grade_command: Any
) -> None:
    course = grade_command.folder / "accounts"
    for student, text in {"anna": "", "ben": "# dies once", "cleo": "# half"}.items():
        (course / "class" / student).mkdir(parents=True)
        (course / "class" / student / "one.py").write_text(f"# {student}, accounts\n{text}\n")
    limit = ["sacctmgr", "-i", "modify", "account", "class-aac", "set"]
    accounting_slurm.run([*limit, "MaxSubmitJobs=2"])
    students = sorted(map(str, (course / "class").iterdir()))
    words = ["--set", "array_chunk=1", "--set", "account=class-aac"]
    result = accounting_slurm.run(grade_command(course, *students, *words), cwd=course)
    accounting_slurm.run([*limit, "MaxSubmitJobs=-1"])
    assert result.returncode == 0, result.stderr + accounting_slurm.logs()
    found = re.search(r"job (\d+): 3 submissions in 2 tasks, submitted", result.stderr)
    assert found, result.stderr
    scores = json.loads((course / "out.json").read_text())["submissions"]
    assert [each["score"] for each in scores] == [100, 100, 50]
    ask = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", TASKS, found[1]]
    recorded = accounting_slurm.run(ask)
    assert recorded.stdout.strip() == "[(0, 'FAILED', '0:9'), (1, 'COMPLETED', '0:0')]"
