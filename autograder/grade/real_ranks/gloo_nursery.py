"""Inside the sandbox: start ranks of torch's own gloo as forks of one process that imported torch.

With ``RINGSIDE_JOB_BACKEND=nccl`` they are ranks of NCCL, with a GPU each. With
``RINGSIDE_JOB_OWN_HASHES`` every rank is a Python of its own, with another seed of its hashes.

Importing torch takes seconds, so it is done once. gloo finds its partners through a file, and
talks over the sandbox's loopback device.

    python -I nursery.py nursery P ...    worlds of P ranks, one after another
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from datetime import timedelta

_GRACE_S = 5.0  # for ranks that have what they need from one that failed
_PATIENCE = timedelta(seconds=120)  # more than the job may take: whoever waits is killed with it


def nurse(worlds: list[int]) -> int:
    """Start the worlds; returns the exit status."""
    load()
    status = first_pipe = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, world_size in enumerate(worlds):
            status = _world(f"{folder}/{number}", number, world_size, first_pipe) or status
            first_pipe += world_size
    return status


def load() -> None:
    """Import what ranks need; nothing that starts a thread is called."""
    kit = os.environ["RINGSIDE_JOB_KIT"]
    sys.path.insert(0, kit)
    import torch
    import torch.distributed
    import torch.nn.parallel
    import torch.optim

    from ringside.network import codec  # noqa: F401
    from ringside.pytorch import tensors  # noqa: F401

    sys.path.remove(kit)
    torch.set_num_threads(1)
    gc.freeze()  # a module may look through what it has made: not through all of torch


def _world(store: str, number: int, world_size: int, first_pipe: int) -> int:
    ranks = set()
    for rank in range(world_size):
        arguments = [store, *map(str, (rank, world_size, number, first_pipe))]
        if "RINGSIDE_JOB_OWN_HASHES" in os.environ:
            ranks.add(_started(arguments, rank))
            continue
        pid = os.fork()
        if not pid:
            os._exit(_be_rank(store, rank, world_size, number, first_pipe))
        ranks.add(pid)
    status, until = 0, float("inf")
    while ranks:
        pid, ended = os.waitpid(-1, os.WNOHANG)
        ranks.discard(pid)
        if ended and not status:
            status, until = 1, time.monotonic() + _GRACE_S
        if time.monotonic() > until:
            for other in ranks:  # they wait for the one that has failed
                os.kill(other, signal.SIGKILL)
            until = float("inf")
        if not pid:
            time.sleep(0.01)
    return status


def _started(words: list[str], rank: int) -> int:
    """The process id of a rank that imports for itself."""
    # Isolated (-I) it would not read the seed of its hashes.
    command = [sys.executable, "-s", "-P", os.path.abspath(__file__), "rank", *words]
    environment = {**os.environ, "PYTHONHASHSEED": str(rank + 1)}
    return os.posix_spawn(sys.executable, command, environment)


def _be_rank(store: str, rank: int, world_size: int, number: int, first_pipe: int) -> int:
    try:
        import torch.distributed as dist

        from ringside.ranks import seccomp

        results = os.environ["RINGSIDE_JOB_RESULTS"]
        os.environ["RINGSIDE_JOB_WORLD"] = str(number)
        os.environ["RINGSIDE_JOB_PIPE"] = os.path.join(results, f"pipe{first_pipe + rank}")
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        # A rank that is done before another has connected to it would end that one, too.
        os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
        for name, value in (("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", world_size)):
            os.environ[name] = str(value)
        backend = os.environ.get("RINGSIDE_JOB_BACKEND", "gloo")
        if backend == "nccl":
            _take_gpu(rank)
        dist.init_process_group(
            backend,
            store=dist.FileStore(store, world_size),  # type: ignore[attr-defined]
            rank=rank,
            world_size=world_size,
            timeout=_PATIENCE,
        )
        # After the library has started what it needs, and before the first line of the student's.
        seccomp.refuse_processes(os.getpid())
        runpy.run_path(os.path.join(results, "driver.py"), run_name="__main__")
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _take_gpu(rank: int) -> None:
    """Choose this rank's GPU, of those that the job has."""
    import torch

    os.environ["NCCL_SOCKET_IFNAME"] = "lo"
    if visible := os.environ.get("RINGSIDE_JOB_GPUS"):
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    torch.cuda.set_device(rank)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        load()
        os._exit(_be_rank(sys.argv[2], *map(int, sys.argv[3:])))
    sys.exit(nurse([int(word) for word in sys.argv[2:]]))
