"""A real Slurm on two nodes for the tests marked `slurm`, started once."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _minislurm() -> Any:
    """The start script beside this file, which is no package."""
    specification = importlib.util.spec_from_file_location(
        "minislurm", Path(__file__).with_name("minislurm.py")
    )
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def slurm() -> Iterator[Any]:
    minislurm = _minislurm()
    reason = minislurm.why_not()
    if reason:
        pytest.skip(f"no Slurm here: {reason}")
    with minislurm.MiniSlurm(2, shared=[ROOT, Path(sys.prefix)]) as running:
        yield running


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every node sees; /tmp is private to each."""
    folder = Path(tempfile.mkdtemp(prefix="ringside-test-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)
