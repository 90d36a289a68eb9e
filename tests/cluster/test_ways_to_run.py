"""docs/ways_to_run.md: its programs are started in all five ways, and print what the page shows."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ringside.jobs.launch.launch import here_environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ways_to_run.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def blocks(heading: str) -> list[tuple[str, str]]:
    """The language and the text of each block of a section."""
    [section] = re.findall(rf"^## {re.escape(heading)}.*?\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    return BLOCK.findall(section)


NAMES = ("total.py", "total_torch.py")
PROGRAMS = dict(zip(NAMES, (text for _, text in blocks("The program")), strict=True))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the two programs of the page."""
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def said(words: list[str], folder: Path) -> list[str]:
    """The lines that a command prints, in the order of the ranks."""
    environment = {**here_environment(), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return in_order(done.stdout)


def in_order(text: str) -> list[str]:
    return sorted(re.findall(r"rank \d+ of \d+: the sum is \d+", text))


def test_both_programs_have_ten_lines_at_most_and_import_nothing_of_ours() -> None:
    for text in PROGRAMS.values():
        assert len([line for line in text.splitlines() if line]) <= 10
        assert "ringside" not in text


def test_ringside_run_prints_what_the_page_shows(folder: Path) -> None:
    (_, program), (_, shown) = blocks("1. In Python")
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, shown), done.stderr


@needs_torch
def test_ringside_run_prints_the_same_of_the_program_in_torch(folder: Path) -> None:
    (_, program), (_, shown) = blocks("1. In Python")
    done = subprocess.run(
        [sys.executable, "-c", program.replace("total.py", "total_torch.py")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert in_order(done.stdout) == in_order(shown), done.stderr


def test_a_cell_on_ranks_prints_what_the_page_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringside.commands.magic import run_cell

    (_, cell), (_, shown) = blocks("2. In a notebook")
    monkeypatch.chdir(folder)
    line = cell.splitlines()[0].removeprefix("%%ranks")
    run_cell(f"{line} --no-timeline", PROGRAMS["total.py"])
    assert capsys.readouterr().out == shown


@pytest.mark.mpi
def test_mpiexec_prints_what_the_page_shows(folder: Path) -> None:
    (_, line), (_, shown) = blocks("3. On your laptop")
    assert said(shlex.split(line), folder) == in_order(shown)


@pytest.mark.release
@needs_torch
@pytest.mark.slow
def test_torchrun_prints_what_the_page_shows(folder: Path) -> None:
    (_, line), (_, shown) = blocks("4. With PyTorch")
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    assert said([*words, *shlex.split(line)[1:]], folder) == in_order(shown)


@pytest.mark.slurm
def test_srun_prints_what_the_page_shows(slurm: Any, shared_folder: Path) -> None:
    (_, line), (_, shown), _ = blocks("5. On a cluster")
    (shared_folder / "total.py").write_text(PROGRAMS["total.py"])
    done = slurm.run(shlex.split(line.replace("python", sys.executable)), cwd=shared_folder)
    assert in_order(done.stdout) == in_order(shown), done.stderr


@pytest.mark.release
@needs_torch
@pytest.mark.slurm
@pytest.mark.slow
def test_srun_starts_torchrun_on_each_node(slurm: Any, shared_folder: Path) -> None:
    _, (_, shown), (_, lines) = blocks("5. On a cluster")
    (shared_folder / "total_torch.py").write_text(PROGRAMS["total_torch.py"])
    torchrun = f"{sys.executable} -m torch.distributed.run"
    (shared_folder / "job.sh").write_text(lines.replace("torchrun", torchrun))
    words = ["salloc", "--nodes", "2", "--mem", "2000", "bash", "job.sh"]
    done = slurm.run(words, cwd=shared_folder)
    assert in_order(done.stdout) == in_order(shown), done.stderr
