"""Jobs whose ranks run in a container (`--set container=FILE.sif`), on real Slurm daemons.

Apptainer itself is on few machines, so a stand-in takes its place in most tests: it writes down
how it was called, and starts what it was to start inside. With Apptainer here and an image from
`make sif`, the same launches go through the real one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside.jobs.launch.jobscript import Job, LaunchError
from ringside.jobs.launch.sites import Site

ROOT = Path(__file__).resolve().parents[2]
SIF = ROOT / "build" / "image" / "ringside.sif"
RING = """
def all_reduce(comm, x):
    return comm.allreduce(x)
"""
RING_TORCH = """
import torch.distributed as dist


def all_reduce(group, x):
    dist.all_reduce(x, group=group)
    return x
"""
# It begins with what it is to record in, and the folder of the Python that it starts.
STAND_IN = """\
#!/bin/bash
printf '%s\\n' "$*" >>{calls}
[ "$1" = exec ] || exit 255
shift
while [ "$1" != {image} ]; do shift; done
shift
export PATH={programs}:"$PATH"
exec "$@"
"""


@pytest.fixture
def stand_in(shared_folder: Path) -> Path:
    """A folder for the ranks, with an image of nothing and a program called apptainer."""
    (shared_folder / "ring.py").write_text(RING)
    (shared_folder / "ring_torch.py").write_text(RING_TORCH)
    (shared_folder / "bin").mkdir()
    image = shared_folder / "ringside.sif"
    image.write_text("no image")
    program = shared_folder / "bin" / "apptainer"
    calls, programs = shared_folder / "calls", Path(sys.executable).parent
    program.write_text(STAND_IN.format(calls=calls, image=image, programs=programs))
    program.chmod(0o755)
    return shared_folder


def launch(
    slurm: Any, folder: Path, target: str, exports: str, image: Path, *words: str
) -> dict[str, Any]:
    """A launch on two nodes with two ranks each; gives its run.json."""
    command = [sys.executable, "-m", "ringside", "launch", target, "--site", "generic"]
    command += ["--nodes", "2", "--set", "ranks_per_node=2", "--set", "memory_per_cpu=500M"]
    command += ["--set", f"container={image}", "--set", f"exports={exports}", *words]
    command += ["--json", "--", "--n", "1000"]
    result = slurm.run(["env", f"PYTHONPATH={ROOT}", *command], cwd=folder)
    log = (folder / "run.log").read_text() if (folder / "run.log").exists() else ""
    assert result.returncode == 0, result.stdout + result.stderr + log + slurm.logs()
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def hosts_and_values(record: dict[str, Any]) -> tuple[list[str], set[str]]:
    return sorted(record["hosts"]), {entry["values"] for entry in record["measurements"]}


TWO_BY_TWO = (["node1", "node1", "node2", "node2"], {"right"})


@pytest.mark.slurm
@pytest.mark.mpi
def test_each_rank_of_a_job_is_started_by_apptainer(slurm: Any, stand_in: Path) -> None:
    exports = f"PATH={stand_in / 'bin'}:/usr/bin:/bin,PYTHONPATH={ROOT}"
    image = stand_in / "ringside.sif"
    record = launch(slurm, stand_in, "ring.py:all_reduce", exports, image)
    assert hosts_and_values(record) == TWO_BY_TWO
    calls = (stand_in / "calls").read_text().splitlines()
    inside = f"exec --bind {stand_in} {image} python -m ringside.jobs.real.mpi_main --world-size 4 "
    assert len(calls) == 4 and all(call.startswith(inside) for call in calls)


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.parametrize(("launcher", "starts"), [("srun", 4), ("torchrun", 2)])
def test_torchs_ranks_are_started_by_apptainer(
    slurm: Any, stand_in: Path, launcher: str, starts: int
) -> None:
    exports = f"PATH={stand_in / 'bin'}:/usr/bin:/bin,PYTHONPATH={ROOT}"
    words = ("--set", f"torch_launcher={launcher}", "--set", f"scratch={stand_in}")
    image = stand_in / "ringside.sif"
    record = launch(slurm, stand_in, "ring_torch.py:all_reduce", exports, image, *words)
    assert hosts_and_values(record) == TWO_BY_TWO
    calls = (stand_in / "calls").read_text()
    assert calls.count(f"exec --bind {stand_in} --bind {stand_in} {image} ") == starts


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.container
@pytest.mark.parametrize("target", ["ring.py:all_reduce", "ring_torch.py:all_reduce"])
def test_the_real_apptainer_runs_the_ranks(slurm: Any, stand_in: Path, target: str) -> None:
    if shutil.which("apptainer") is None:
        pytest.skip("needs Apptainer, which Debian 12 has not; only a stand-in was tried")
    if not SIF.is_file():
        pytest.skip(f"needs {SIF.name}: run `make sif`")
    # Root of a virtual machine may lack rights that Apptainer asks for as root.
    record = launch(slurm, stand_in, target, "APPTAINER_USERNS=1", SIF)
    assert hosts_and_values(record) == TWO_BY_TWO
    assert not (stand_in / "calls").exists()


def job(image: str, site: str = "generic", **settings: int) -> Job:
    found = Site.load(site)
    return Job(found, found.settings([f"container={image}"], {}), "mpi4py", 2, **settings)


def test_an_image_that_is_not_there_is_refused_before_the_job_is_submitted(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"there is no such file. `make sif` makes one"):
        job(str(tmp_path / "none.sif")).check_here()
    (tmp_path / "some.sif").touch()
    job(str(tmp_path / "some.sif"), "local").check_here()
    job("").check_here()


def test_an_image_that_other_nodes_cannot_see_is_refused(tmp_path: Path) -> None:
    image = Path("/tmp") / f"ringside-{tmp_path.name}.sif"
    image.touch()
    try:
        with pytest.raises(LaunchError, match="every node has a /tmp of its own"):
            job(str(image)).check_here()
    finally:
        image.unlink()


def test_what_the_ranks_read_is_shown_once_and_gpus_too() -> None:
    words = job("/srv/ringside.sif", gpus_per_node=2).inside(
        Path("/home/a/x"), Path("/home/a"), Path("/srv/out"), Path("/home/a")
    )
    assert words == "apptainer exec --nv --bind /home/a,/srv/out /srv/ringside.sif "
    assert job("").inside(Path("/home/a")) == ""


def test_a_folder_that_apptainer_would_divide_is_refused() -> None:
    with pytest.raises(LaunchError, match="no folder may have a comma or a colon in its name"):
        job("/srv/ringside.sif").inside(Path("/home/a:b"))


def test_without_an_environment_of_its_own_a_script_takes_the_containers_python(
    tmp_path: Path,
) -> None:
    (tmp_path / "ring.py").write_text(RING)
    command = [sys.executable, "-m", "ringside", "launch", "ring.py:all_reduce", "--dry-run"]
    (tmp_path / "i.sif").touch()
    shown = subprocess.run(
        [*command, "--site", "local", "--set", "container=i.sif"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert f"{tmp_path}/i.sif python -m ringside.jobs.real.mpi_main" in shown.stdout
    assert "PYTHONPATH=" not in shown.stdout
