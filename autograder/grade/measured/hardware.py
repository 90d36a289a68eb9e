"""The cores and GPUs that this process may use: one for each rank that is measured."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from ringside.jobs.real import facts as cluster_facts

__all__ = ["cores", "driver_folder", "gpu_files", "num_gpus"]


def cores() -> list[int]:
    """The cores that this process may use: of each, one processor, since siblings share it."""
    processors: dict[int, int] = {}
    for number in cluster_facts.cores():
        processors.setdefault(cluster_facts.physical(number), number)
    return list(processors.values())


def gpu_files() -> list[Path]:
    """What a process opens to use the GPUs of this machine."""
    return sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device())


def driver_folder() -> Path | None:
    """The folder of the GPUs' driver, if it is not one of the system's: containers mount it."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    lines = Path("/proc/self/maps").read_text().splitlines()
    folders = [Path(line.split()[-1]).parent for line in lines if "/libcuda.so" in line]
    outside = [folder for folder in folders if not str(folder).startswith(("/usr/lib", "/lib"))]
    return outside[0] if outside else None


def num_gpus() -> int:
    """How many GPUs this process may use: the scheduler's choice, else all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([word for word in visible.split(",") if word.strip()])
    return len([path for path in gpu_files() if path.name.removeprefix("nvidia").isdigit()])
