"""For ``callers_torch.py``: real ranks on this machine, processes that gloo connects.

``failures_on_gloo(check, 3)`` calls ``check(group)`` in three processes.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

PATIENCE = timedelta(seconds=30)  # of a rank that waits for another


def failures_on_gloo(check: Callable[[Any], None], world_size: int) -> int:
    """Run ``check(group)`` as ``world_size`` real ranks; returns how many of them failed.

    Args:
        check: raises where something is wrong. It has a name in its module: on some systems the
            new processes import it.
    """
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            context.Process(target=_rank, args=(check, rank, world_size, f"{folder}/store"))
            for rank in range(world_size)
        ]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
    return sum(process.exitcode != 0 for process in ranks)


def _rank(check: Callable[[Any], None], rank: int, world_size: int, path: str) -> None:
    import torch.distributed as dist

    store = dist.FileStore(path, world_size)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, world_size=world_size, rank=rank, timeout=PATIENCE)
    check(dist.group.WORLD)
    dist.destroy_process_group()
