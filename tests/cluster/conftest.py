"""A real Slurm on three nodes for the tests marked `slurm`, started once; another with accounts."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
Launch = Callable[..., list[str]]


def _minislurm() -> Any:
    """The start script beside this file, which is no package."""
    specification = importlib.util.spec_from_file_location(
        "minislurm", Path(__file__).with_name("minislurm.py")
    )
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _running(num_nodes: int, *, accounts: bool = False) -> Iterator[Any]:
    minislurm = _minislurm()
    reason = minislurm.why_not(accounts)
    if reason:
        pytest.skip(f"no Slurm here: {reason}")
    with minislurm.MiniSlurm(
        num_nodes, shared=[ROOT, Path(sys.prefix)], accounts=accounts
    ) as running:
        yield running


@pytest.fixture(scope="session")
def slurm() -> Iterator[Any]:
    """Three nodes without accounts; partition scavenger has the last one."""
    yield from _running(3)


@pytest.fixture(scope="session")
def accounting_slurm() -> Iterator[Any]:
    """Two nodes with slurmdbd: account class-aac may run jobs, dry-aac has no units left."""
    yield from _running(2, accounts=True)


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every node sees; /tmp is private to each."""
    folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def launch_command() -> Launch:
    """Make the words of `ringside launch` for these nodes; words of the launched file come last."""

    def command(target: str, *words: str, site: str = "zaratan", after: str = "") -> list[str]:
        start = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "ringside", "launch", target]
        start += ["--site", site, "--set", f"exports=PYTHONPATH={ROOT}", *words]
        return [*start, *(["--", *after.split()] if after else [])]

    return command
