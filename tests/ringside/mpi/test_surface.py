"""mpi4py's surface, by the same checks on Ringside's network and on real MPI."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringside import Session

HERE = Path(__file__).parent
WORLD_SIZES = [1, 2, 3, 5]
CHECKS = sorted(
    line.split("(")[0].removeprefix("def ")
    for path in HERE.glob("surface_*.py")
    for line in path.read_text().splitlines()
    if line.startswith("def check_")
)


def _mpiexec() -> str | None:
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(HERE) as session:
        yield session


@pytest.fixture(scope="module")
def reports() -> dict[int, dict[str, dict[str, str] | None]]:
    """What real MPI says of each check, by world size; one mpiexec a world size."""
    mpiexec = _mpiexec()
    if mpiexec is None:
        pytest.skip("there is no mpiexec on this machine")
    found = {}
    for world_size in WORLD_SIZES:
        done = subprocess.run(
            [mpiexec, "-n", str(world_size), sys.executable, str(HERE / "surface.py")],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        assert lines, f"mpiexec -n {world_size} gave no report:\n{done.stderr[-2000:]}"
        found[world_size] = json.loads(lines[-1])
    return found


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_on_the_network(session: Session, check: str, world_size: int) -> None:
    result = session.call(
        "surface.py:run_check", world_size, [(check,)] * world_size, timeout_s=30.0
    )
    assert result.error is None, str(result.error)


@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_on_real_mpi(
    reports: dict[int, dict[str, dict[str, str] | None]], check: str
) -> None:
    for world_size in WORLD_SIZES:
        failures = reports[world_size][check]
        assert not failures, f"{world_size} ranks: " + "\n".join((failures or {}).values())
