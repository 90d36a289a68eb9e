"""Whether real MPI can start ranks here: its launcher."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def found_mpiexec() -> str | None:
    """The launcher beside this Python, where the mpich wheel puts it, else the one on PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")
