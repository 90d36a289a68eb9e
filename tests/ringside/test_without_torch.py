"""The kit without torch: MPI works, and what needs torch says so in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from ringside.torch_there import INSTALL

KIT = Path(__file__).resolve().parents[2]
HELLO = "def all_reduce(comm, x):\n    return comm.allreduce(x)\n"
WITH_TORCH = "import torch.distributed as dist\ndef f(group, x):\n    dist.all_reduce(x)\n"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that has all that this one has, except torch: links."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    new = next((place / "lib").glob("python*")) / "site-packages"
    pairs = [(here, new), (here.parent.parent, place / "lib")]
    pairs.append((Path(sysconfig.get_path("scripts")), place / "bin"))
    for source, target in pairs:
        for path in source.iterdir():
            beside = target / path.name
            if not path.name.startswith(("torch", "functorch")) and not beside.exists():
                beside.symlink_to(path)
    return place / "bin"


def ringside(bare: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(KIT), "PATH": f"{bare}:{os.environ['PATH']}"}
    return subprocess.run(
        [str(bare / "python"), "-m", "ringside", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.mpi
def test_the_hello_of_mpi_runs_on_real_and_on_simulated_ranks(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(HELLO)
    for words in (["launch", "--site", "local"], ["run", "--ranks", "3"]):
        done = ringside(bare, tmp_path, words[0], "hello.py:all_reduce", *words[1:])
        assert done.returncode == 0, done.stderr
        assert "values right" in done.stdout.replace("values: right", "values right")
    assert (tmp_path / "run.json").is_file()


@pytest.mark.parametrize("words", ["run --ranks 2", "launch --site local"])
def test_what_needs_torch_says_so_in_one_sentence(bare: Path, tmp_path: Path, words: str) -> None:
    (tmp_path / "sums.py").write_text(WITH_TORCH)
    command, *options = words.split()
    done = ringside(bare, tmp_path, command, "sums.py:f", *options)
    assert (done.returncode, done.stdout) == (2, "")
    wanted = f"sums.py needs torch, which is not installed here: {INSTALL}"
    assert done.stderr == f"ringside: {wanted}\n"


def test_a_check_runs_what_needs_no_torch_and_names_it_for_the_rest(
    bare: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a03_allreduce"
    shutil.copytree(KIT / "assignments" / "a03_allreduce", folder)
    (folder / "a03_allreduce.ipynb").unlink()
    for name in ("star", "ring_torch"):
        shutil.copy(KIT / "solutions" / "a03_allreduce" / f"{name}.py", folder)
    done = ringside(bare, folder, "check", "star", "ring_torch")
    assert done.returncode == 1
    assert "star: 100 of 100 public points" in done.stdout, done.stdout + done.stderr
    assert f"needs torch, which is not installed here: {INSTALL}" in done.stdout


def test_modules_beside_one_of_torch_are_checked_without_it(bare: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a13_inference"
    shutil.copytree(KIT / "assignments" / "a13_inference", folder)
    (folder / "a13_inference.ipynb").unlink()
    shutil.copy(KIT / "solutions" / "a13_inference" / "kv_cache.py", folder)
    done = ringside(bare, folder, "check", "kv_cache")
    assert done.returncode == 0
    assert "kv_cache: 100 of 100 public points" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
def test_the_doctor_says_how_torch_is_installed(bare: Path, tmp_path: Path) -> None:
    done = ringside(bare, tmp_path, "doctor")
    assert "No module named 'torch'" in done.stdout
    assert INSTALL in done.stdout
