"""The scripts that each site gets, word for word, and what shellcheck thinks of them.

After a change of a template or a site, ``make golden`` renders them anew; read the difference
before you commit it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.grade.cluster.grading_array import GradingArray
from ringside.jobs.launch import sites
from ringside.jobs.launch.jobscript import kind_of
from ringside.jobs.launch.jupyter import Jupyter
from ringside.jobs.launch.launch import Launch
from ringside.jobs.launch.sites import Site
from ringside.session.target import Target

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("golden")
RENEW = os.environ.get("RENEW_GOLDEN") == "1"
STUDENT = "/home/student"

FILES = {
    "ring.py": "def all_reduce(comm, x):\n    return x\n",
    "ring_torch.py": "def all_reduce(group, x):\n    return x\n",
    "train.py": "import torch.distributed as dist\n",
}

Render = Callable[[Site, Path], str]


def launched(
    target: str, *changes: str, gpus: int = 0, sweep: bool = False, words: tuple[str, ...] = ()
) -> Render:
    """A launch on two nodes; on one where the site is one machine and GPUs are asked for."""

    def render(site: Site, folder: Path) -> str:
        nodes = 1 if gpus and site.scheduler == "none" else 2
        where = Target.parse(str(folder / target))
        settings = site.settings([f"environment={STUDENT}/ringside-env", *changes], {})
        launch = Launch(where, site, settings, nodes, words=words, out=folder)
        launch = replace(launch, lengths=(1000, 1_000_000), gpus_per_node=gpus, sweep=sweep)
        launch.job.check()
        return launch.script()

    return render


def jupyter(site: Site, folder: Path, *changes: str) -> str:
    settings = site.settings([f"environment={STUDENT}/ringside-env", *changes], {})
    return Jupyter(site, settings, 1, folder).script()


def grading_array(site: Site, folder: Path, *changes: str) -> str:
    settings = site.settings([f"environment={STUDENT}/ringside-env", *changes], {})
    submissions = [folder / f"student{k}" for k in range(120)]
    array = folder / "build" / "array"
    return GradingArray(site, settings, "a03_allreduce", submissions, folder, array).script()


torchrun = "torch_launcher=torchrun"
KINDS: dict[str, Render] = {
    "mpi4py": launched("ring.py:all_reduce"),
    "torch_nccl": launched("train.py", gpus=4, words=("--epochs", "3")),
    "torch_torchrun": launched("train.py", torchrun, gpus=4),
    "jupyter": jupyter,
    "grading_array": grading_array,
}
# These have a site's lines where those above have them, so one site of each scheduler shows them.
OF_SCHEDULERS: dict[str, Render] = {
    "torch_gloo": launched("ring_torch.py:all_reduce"),
    "sweep_mpi4py": launched("ring.py:all_reduce", sweep=True),
    "sweep_nccl": launched("train.py", gpus=4, sweep=True),
    "sweep_torchrun": launched("train.py", torchrun, gpus=4, sweep=True),
}
IMAGE = f"container={STUDENT}/ringside.sif"
IN_CONTAINER: dict[str, Render] = {
    "mpi4py": launched("ring.py:all_reduce", IMAGE),
    "torch_nccl": launched("train.py", IMAGE, "scratch=/scratch/$USER", gpus=4),
    "torch_torchrun": launched("train.py", IMAGE, torchrun, gpus=4),
    "sweep_torchrun": launched("train.py", IMAGE, torchrun, gpus=4, sweep=True),
    "jupyter": lambda site, folder: jupyter(site, folder, IMAGE),
    "grading_array": lambda site, folder: grading_array(site, folder, IMAGE),
}


def wanted(site: str) -> Iterator[tuple[Path, Render]]:
    """The scripts of a site, and where they are kept; the generic one has some in a container."""
    kinds = KINDS | OF_SCHEDULERS if site in (sites.GENERIC, "local") else KINDS
    yield from ((GOLDEN / f"{site}.{kind}.sbatch", render) for kind, render in kinds.items())
    if site == sites.GENERIC:
        for kind, render in IN_CONTAINER.items():
            yield GOLDEN / f"{site}.{kind}.container.sbatch", render


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("PYTHONPATH", "RINGSIDE_KIT", "RINGSIDE_COURSE"):
        monkeypatch.delenv(name, raising=False)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    yield tmp_path


@pytest.mark.parametrize("site", sites.names())
def test_every_script_of_a_site_is_the_one_that_was_read(site: str, folder: Path) -> None:
    for path, render in wanted(site):
        text = render(Site.load(site), folder)
        text = text.replace(str(folder), f"{STUDENT}/a03").replace(str(ROOT), f"{STUDENT}/kit")
        if RENEW:
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text)
        assert text == path.read_text(), f"{path.name} differs: `make golden`, and read why."


def test_no_script_is_left_of_a_site_or_a_kind_that_is_gone() -> None:
    assert {*GOLDEN.iterdir()} == {path for site in sites.names() for path, _ in wanted(site)}


def test_no_script_names_a_folder_of_this_machine() -> None:
    for path in GOLDEN.iterdir():
        words = path.read_text().replace('"', " ").replace("'", " ").replace("=", " ").split()
        for word in words:
            if word.startswith("/") and word != "/":
                known = (STUDENT, "/etc/profile", "/bin/bash", "/scratch/", "/dev/null")
                assert word.startswith(known), f"{path.name}: {word}"


def test_directives_come_before_the_first_command() -> None:
    # Slurm reads no #SBATCH line after it, and says nothing.
    for path in GOLDEN.iterdir():
        lines = path.read_text().splitlines()
        assert lines[0] == "#!/bin/bash"
        commands = [k for k, line in enumerate(lines) if line and not line.startswith("#")]
        directives = [k for k, line in enumerate(lines) if line.startswith("#SBATCH")]
        assert max(directives) < min(commands), path.name
        assert "\n\n\n" not in path.read_text(), path.name


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="needs shellcheck: run `make system`")
def test_shellcheck_finds_nothing() -> None:
    found = subprocess.run(
        ["shellcheck", *sorted(map(str, GOLDEN.iterdir()))], capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("text", "target", "gpus", "kind"),
    [
        ("def f(comm, x): ...", "m.py:f", 0, "mpi4py"),
        ("import torch\ndef f(comm, x): ...", "m.py:f", 2, "mpi4py"),
        ("def f(group, x): ...", "m.py:f", 0, "gloo"),
        ("def f(group, x): ...", "m.py:f", 2, "nccl"),
        ("import torch\ndef g(group, x): ...\nf = g", "m.py:f", 0, "gloo"),
        ("def g(comm, x): ...\nf = g", "m.py:f", 0, "mpi4py"),
        ("from mpi4py import MPI", "m.py", 0, "mpi4py"),
        ("import torch", "m.py", 1, "nccl"),
        ("import torch\nfrom mpi4py import MPI", "m.py", 1, "mpi4py"),
        ("import mpi4py\nfrom torch import distributed", "m.py", 0, "gloo"),
        ("import mpi4py\nimport torch.distributed.tensor", "m.py", 0, "gloo"),
        ("print('no ranks at all')", "m.py", 0, "mpi4py"),
    ],
)
def test_the_file_tells_the_kind_of_job(
    tmp_path: Path, text: str, target: str, gpus: int, kind: str
) -> None:
    (tmp_path / "m.py").write_text(text)
    assert kind_of(Target.parse(str(tmp_path / target)), gpus) == kind
