"""A sweep, JupyterLab on a node and a grading array on real Slurm daemons."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

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


def test_a_class_is_graded_on_nodes_and_here_to_the_same_table(
    slurm: Any, shared_folder: Path
) -> None:
    source = (ROOT / "solutions" / "a04_data_parallel" / "warmup.py").read_text()
    for student in ("anna", "ben"):
        place = shared_folder / "class" / student
        place.mkdir(parents=True)
        (place / "warmup.py").write_text(source + f"# {student}\n")
    words = ["grade", "a04_data_parallel", *map(str, (shared_folder / "class").iterdir())]
    words += ["--executor", "slurm", "--trust-submissions", "--json", "-"]
    result = run(slurm, shared_folder, "autograder", *words, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr + slurm.logs()
    assert "2 of 2 were graded there" in result.stderr
    submissions = json.loads(result.stdout)["submissions"]
    assert {(each["student"], each["score"]) for each in submissions} == {("anna", 15), ("ben", 15)}
    records = shared_folder / "build" / "array" / "a04_data_parallel" / "records"
    assert sorted(path.name for path in records.iterdir()) == ["0.json", "1.json"]
