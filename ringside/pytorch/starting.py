"""Programs that start their ranks themselves: here they are started already.

``torch.multiprocessing.spawn(work, nprocs=4)``, and a loop of ``Process(target=work)``, are met by
each of the run's ranks. Each makes the call of its own number, and leaves the others to theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import torch.distributed as dist
import torch.multiprocessing

import ringside.network.link
from ringside.units import format_count

_start = BaseProcess.start
_num_started = [0]  # processes that were taken for ranks


class _Ended:
    """What is left of a process that was a rank and has returned."""

    returncode = 0

    def poll(self) -> int:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        return self.returncode

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        return True  # as torch's context of processes

    def close(self) -> None:
        pass

    terminate = kill = close


def install() -> None:
    """Let starting ranks mean being one."""
    vars(torch.multiprocessing).update(spawn=_spawn, start_processes=_spawn)
    BaseProcess.start = _start_process  # type: ignore[method-assign]


def begin() -> None:
    """Begin a script: it has started nothing yet."""
    _num_started[0] = 0


def end() -> None:
    """End a script.

    Raises:
        RuntimeError: it has started fewer processes than there are ranks.
    """
    if _num_started[0]:
        _check(_num_started[0])


def _spawn(
    fn: Callable[..., None], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
    daemon: bool = False, start_method: str = "spawn",
) -> _Ended | None:  # fmt: skip
    """As torch's: ``fn(rank, *args)``, here of this rank alone."""
    _check(nprocs)
    fn(ringside.network.link.current().rank, *args)
    return None if join else _Ended()


def _start_process(self: Any) -> None:
    """Start a process, such as a DataLoader's; those before there is a group are the ranks."""
    work, number = self._target, _num_started[0]
    inside_a_rank = dist.is_initialized() and not number
    if work is None or str(work.__module__).startswith("torch.") or inside_a_rank:
        _start(self)
        return
    _num_started[0] += 1
    self._popen = _Ended()
    if number == ringside.network.link.current().rank:
        work(*self._args, **self._kwargs)


def _check(number: int) -> None:
    world_size = ringside.network.link.current().world_size
    if number != world_size:
        raise RuntimeError(
            f"the program starts {format_count(number, 'rank')}, and this run has {world_size}: "
            f"give it as many, with `--ranks {number}`."
        )
