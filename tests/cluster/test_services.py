"""A sweep, JupyterLab on a node and a grading array on real Slurm daemons."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from autograder.course import edits

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slurm

SITE = ["--site", "generic", "--set", "memory_per_cpu=500M"]
RING = "def all_reduce(comm, x):\n    return comm.allreduce(x)\n"
WHO = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=10).read().decode())"


def run(slurm: Any, folder: Path, package: str, *words: str, exports: str = "", cwd: Path) -> Any:
    command = ["env", f"PYTHONPATH={ROOT}", f"RINGSIDE_COURSE={folder}"]
    command += [sys.executable, "-m", package, *words, *SITE]
    command += ["--set", f"exports=PYTHONPATH={ROOT}{exports}"]
    return slurm.run(command, cwd=cwd)


@pytest.mark.mpi
def test_a_sweep_takes_no_more_nodes_than_its_ranks_fill(slurm: Any, shared_folder: Path) -> None:
    (shared_folder / "ring.py").write_text(RING)
    words = ["launch", "ring.py:all_reduce", "--nodes", "2", "--sweep", "--set", "ranks_per_node=2"]
    result = run(slurm, shared_folder, "ringside", *words, cwd=shared_folder)
    assert result.returncode == 0, result.stdout + result.stderr + slurm.logs()
    rows = list(csv.DictReader((shared_folder / "sweep.csv").read_text().splitlines()))
    assert [(row["ranks"], row["nodes"]) for row in rows[::3]] == [
        ("1", "1"),
        ("2", "1"),
        ("4", "2"),
    ]
    assert {row["values"] for row in rows} == {"right"}
    assert json.loads((shared_folder / "run.json").read_text())["world_size"] == 4


def test_jupyter_answers_on_the_node_to_who_has_the_token(slurm: Any, shared_folder: Path) -> None:
    if os.geteuid() == 0:  # Jupyter does not run as root unless it is told to
        (shared_folder / "jupyter_server_config.py").write_text("c.ServerApp.allow_root = True\n")
    words = ["launch", "--jupyter", "--no-wait", "--set", "ranks_per_node=1"]
    exports = f",JUPYTER_CONFIG_DIR={shared_folder}"
    result = run(slurm, shared_folder, "ringside", *words, exports=exports, cwd=shared_folder)
    assert result.returncode == 0, result.stderr + slurm.logs()
    log = shared_folder / "jupyter.log"
    deadline = time.monotonic() + 60
    while not (log.exists() and "is running at" in log.read_text()):
        assert time.monotonic() < deadline, log.read_text() if log.exists() else slurm.logs()
        time.sleep(0.2)
    assert log.stat().st_mode & 0o077 == 0  # it holds the token
    text = log.read_text()
    [tunnel] = re.findall(r"ssh -N -L (\d+):(node\d):(\d+) \S+@\S+", text)
    [token] = re.findall(rf"http://localhost:{tunnel[0]}/lab\?token=(\w+)", text)
    ask = [sys.executable, "-c", WHO, f"http://{tunnel[1]}:{tunnel[2]}/api/contents"]
    refused = slurm.run(ask)
    assert "403" in refused.stderr
    answered = slurm.run([*ask[:-1], f"{ask[-1]}?token={token}"])
    assert "jupyter.sbatch" in answered.stdout, answered.stderr
    slurm.run(["scancel", *re.findall(r"job (\d+): submitted", result.stderr)])


HANGS = """
def all_reduce(comm, x):
    comm.recv(source=(comm.rank + 1) % comm.size)
    return x
"""


def without_seconds(report: Any) -> Any:
    """A report as it would be on a machine of any speed."""
    if isinstance(report, dict):
        return {name: without_seconds(part) for name, part in report.items() if name != "seconds"}
    return [without_seconds(part) for part in report] if isinstance(report, list) else report


@pytest.mark.sandbox
def test_a_class_is_graded_on_nodes_and_here_to_the_same_results(
    slurm: Any, shared_folder: Path
) -> None:
    solution = ROOT / "solutions" / "a03_allreduce"
    students = {
        "anna": ("cost", (solution / "cost.py").read_text()),
        "ben": ("cost", edits.one(solution, "cost__fixed_threshold").source),
        "cleo": ("star", HANGS),
    }
    for student, (module, text) in students.items():
        place = shared_folder / "class" / student
        place.mkdir(parents=True)
        (place / f"{module}.py").write_text(text)
    (shared_folder / "class" / "dan.zip").write_text("no archive")
    paths = sorted(map(str, (shared_folder / "class").iterdir()))
    begun = {}
    for where in ("here", "there"):  # each with a kit of its own, whose store is empty
        kit = shared_folder / where
        shutil.copytree(solution, kit / "solutions" / "a03_allreduce")
        (kit / "course_secret.txt").write_text("hush")
        command = ["env", f"PYTHONPATH={ROOT}", f"RINGSIDE_KIT={kit}", f"RINGSIDE_COURSE={kit}"]
        command += [sys.executable, "-m", "autograder", "grade", "a03_allreduce", *paths]
        command += ["--json", str(kit / "out.json")]
        if where == "there":
            command += ["--executor", "slurm", *SITE, "--set", f"exports=PYTHONPATH={ROOT}"]
            command += ["--set", "array_chunk=2", "--no-fallback"]
        begun[where] = slurm.begin(command, cwd=kit)
    said = {where: each.communicate(timeout=240)[0] for where, each in begun.items()}
    reports = {
        where: without_seconds(json.loads((shared_folder / where / "out.json").read_text()))
        for where in begun
    }
    assert reports["there"] == reports["here"], said["there"] + slurm.logs()
    assert "3 submissions in 2 tasks, submitted to generic" in said["there"]
    assert "4 of 4 have their results." in said["there"]
    found = {each["student"]: each for each in reports["there"]["submissions"]}
    assert [each["status"] for each in found.values()] == ["graded"] * 3 + ["rejected"]
    assert found["anna"]["score"] == 10 > found["ben"]["score"] > 0 == found["cleo"]["score"]
    messages = [test["message"] for test in found["cleo"]["modules"]["star"]["tests"]]
    assert any("ranks are blocked" in message for message in messages), messages
    assert reports["there"]["sandbox"].startswith("bubblewrap")
    secret = subprocess.run(
        ["grep", "-rl", "hush", str(shared_folder / "there" / "build")], capture_output=True
    )
    assert secret.returncode == 1, secret.stdout
