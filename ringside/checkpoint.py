"""Stop before the time is up, and go on later: was a stop asked for, what is saved, where it lies.

    state = checkpoint.load("train.pt") or {"step": 0}
    for step in range(state["step"], num_steps):
        ...
        if checkpoint.asked():                                  # the same answer on all ranks
            checkpoint.save("train.pt", {"step": step + 1, "model": model.state_dict()})
            break

The job script has Slurm send it USR1 before the time limit, and passes the signal on to the ranks.
``ringside launch`` makes every rank listen for it from the beginning. A script that is started in
another way calls ``listen()`` before its loop: a process that doesn't listen dies of the signal.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any

from ringside.errors import RingsideError
from ringside.network import link


class CheckpointError(RingsideError):
    """A checkpoint that can't be read."""


# Signals belong to the process, so these do, too.
_seen: list[int] = []
_answered: list[bool] = []


def listen() -> None:
    """Take note of USR1 from now on, in place of dying of it.

    Only the main thread can ask that; to simulated ranks, which nobody stops, the signal means
    something else.
    """
    if link.inside_rank():
        return
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGUSR1) is not _note:
        signal.signal(signal.SIGUSR1, _note)


def _note(number: int, frame: Any) -> None:
    # Only noted: the signal may come in the middle of a step, where no state is whole.
    _seen.append(number)


def seen() -> bool:
    """Whether this process has been asked to stop; other ranks may not have been."""
    listen()
    if _seen:
        _answered.append(True)
    return bool(_seen)


def was_told() -> bool:
    """Whether the signal came, known to the program or not."""
    return bool(_seen)


def leaves_work() -> bool:
    """Whether the program has learnt from here that it is to stop: then its work isn't done.

    One that never asks ends when it has done all, in the time that is left.
    """
    return bool(_answered)


def asked(group: Any = None) -> bool:
    """Whether any rank has been asked to stop: all ranks of the group call this, and all agree.

    Args:
        group: a process group of torch.distributed; None: all ranks, or this process alone where
            there is no process group.

    Communication: an all-reduce of one number. So ask once every some steps, not for each sample.
    """
    stop_here = seen()
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        return stop_here
    flag = torch.tensor([int(stop_here)], dtype=torch.int32, device=_device_of(group))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=group)
    if flag.item():
        _answered.append(True)
    return bool(flag.item())


def _device_of(group: Any) -> Any:
    """Where a group's tensors may lie: NCCL takes those of the current GPU only."""
    import torch
    import torch.distributed as dist

    c10d: Any = dist.distributed_c10d
    return torch.device(c10d._get_object_coll_device(group))


def save(path: str | Path, state: Any, group: Any = None) -> None:
    """Write a checkpoint from rank 0 of the group; all ranks call this, and wait for the file.

    The file appears whole or not at all: who is stopped while it is written keeps the one before.

    Args:
        path: where all ranks can see it; folders are made.
        state: tensors, numbers and texts in dicts and lists, such as a ``state_dict()``; whole
            tensors on rank 0, which alone is asked for them.
    """
    import torch.distributed as dist

    alone = not dist.is_initialized()
    if alone or dist.get_rank(group) == 0:
        _write(Path(path), state)
    if not alone:
        _wait_for_all(group)


def _wait_for_all(group: Any) -> None:
    """A barrier that needs no word about the device."""
    import torch
    import torch.distributed as dist

    flag = torch.ones(1, dtype=torch.int32, device=_device_of(group))
    dist.all_reduce(flag, group=group)
    # NCCL's call returns when it is queued; this waits for its end.
    flag.item()


def _write(path: Path, state: Any) -> None:
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())  # the job may be killed, and the node go down, right after
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def load(path: str | Path) -> Any:
    """Read a checkpoint, tensors on the CPU; None where there is none yet.

    Files are read without running what may be hidden in them (``weights_only``).

    Raises:
        CheckpointError: the file is damaged, or holds other things than ``save`` describes.
    """
    import torch

    path = Path(path)
    if not path.exists():
        return None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else "no content"
        raise CheckpointError(
            f"{path}: the checkpoint can't be read: {first}. Delete it to begin again."
        ) from error
