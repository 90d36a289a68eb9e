"""The cores and GPUs that this process may use: one for each rank that is measured."""

from __future__ import annotations

import os
from pathlib import Path

from ringside.jobs.real import facts as cluster_facts

__all__ = ["cores", "gpu_files", "num_gpus"]


def cores() -> list[int]:
    """The cores that this process may use: of each, one processor, since siblings share it."""
    processors: dict[int, int] = {}
    for number in cluster_facts.cores():
        processors.setdefault(cluster_facts.physical(number), number)
    return list(processors.values())


def gpu_files() -> list[Path]:
    """What a process opens to use the GPUs of this machine."""
    return sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device())


def num_gpus() -> int:
    """How many GPUs this process may use: the scheduler's choice, else all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([word for word in visible.split(",") if word.strip()])
    return len([path for path in gpu_files() if path.name.removeprefix("nvidia").isdigit()])
