"""The ranks of a real run over torch.distributed, for ``ringside.jobs.real.run``."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ringside.jobs.real import run as real_run
from ringside.session.recorder import HostClock, Recorder, recording_here

# What gloo and NCCL say on a rank whose peer has gone.
_ECHOES = (
    *("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket closed"),
    *("remote process exited", "ncclRemoteError", "Application timeout caused pair closure"),
)


class TorchRanks(real_run.RealRanks):
    """The ranks of torch's default process group.

    They meet in the group's store for what isn't the student's: that sends nothing over the group.

    Args:
        backend: "gloo" or "nccl".
        device: where tensors of a function lie.
    """

    def __init__(self, backend: str, device: Any, recorder: Recorder) -> None:
        self.kind = backend
        self.rank, self.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._torch_device = device
        self._recorder = recorder
        self._store: Any = None
        self._meetings = 0
        self.device = device_name(device)

    # -- meeting ---------------------------------------------------------------------------------

    def meet(self) -> None:
        """Take the default group's store; all ranks do, as soon as there is one."""
        from torch.distributed import distributed_c10d

        if self._store is None:
            c10d: Any = distributed_c10d
            self._store = c10d.PrefixStore("ringside", c10d._get_default_store())

    @property
    def has_met(self) -> bool:
        """Whether there has been a process group."""
        return self._store is not None

    def allgather(self, value: Any) -> list[Any]:
        whole = self._meetings
        gathered = self.gather(value)
        if self.rank == 0:
            if self.world_size > 1:
                self._put(f"all/{whole}", gathered)
            return gathered
        return list(self._get(f"all/{whole}"))

    def gather(self, value: Any) -> list[Any]:
        # The number makes keys unique: all ranks must make the same meetings in the same order.
        number, self._meetings = self._meetings, self._meetings + 1
        if self.rank != 0:
            self._put(f"{number}/{self.rank}", value)
            return []
        return [value, *(self._get(f"{number}/{rank}") for rank in range(1, self.world_size))]

    def _put(self, key: str, value: Any) -> None:
        self._store.set(key, zlib.compress(json.dumps(value).encode()))

    def _get(self, key: str) -> Any:
        return json.loads(zlib.decompress(self._store.get(key)))

    def together(self) -> None:
        """Where there is a group of all ranks: its barrier is closer than the store's.

        Before that, and after it, they meet in the store.
        """
        import torch.distributed as dist

        if not dist.is_initialized():
            if self.has_met:
                self.allgather(None)
        elif dist.get_backend() == "nccl":
            dist.barrier(device_ids=[self._torch_device.index])
        else:
            dist.barrier()

    # -- calls -----------------------------------------------------------------------------------

    @property
    def first(self) -> Any:
        import torch.distributed as dist

        return dist.group.WORLD

    def given(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        from ringside.pytorch import tensors

        copies = _each_array(arguments, np.copy)
        return tuple(_each_tensor(tensors.from_arrays(copies), self._torch_device))

    def value(self, result: Any, given: tuple[Any, ...]) -> Any:
        from ringside.pytorch import tensors

        buffers = tensors.tensors_in(list(given))
        if result is None and buffers:
            result = buffers[0]
        return tensors.to_arrays(_each_tensor(result, "cpu"))

    def time_s(self, call: Callable[[], Any]) -> float:
        clock = clock_of(self._torch_device)
        self.together()
        clock.restart()
        begin = clock.mark()
        call()
        return clock.seconds(clock.mark()) - clock.seconds(begin)

    def record_call(self, call: Callable[[], Any]) -> None:
        """Record it with its times; then once more with its work counted, which takes longer."""
        from ringside.jobs.real.recording_torch import counted_operators, recording

        counter = Recorder()
        for recorder, counted in (
            (self._recorder, contextlib.nullcontext()),
            (counter, counted_operators(counter)),
        ):
            recorder.enabled = False
            with recording(recorder), recording_here(recorder, self.together), counted:
                self.together()
                recorder.restart()
                recorder.enabled = True
                call()
                recorder.end()
        self._recorder.take_work_of(counter)

    def about(self) -> dict[str, Any]:
        import torch

        versions = {"torch": str(torch.__version__)}
        if self.kind == "nccl":
            nccl: Any = torch.cuda.nccl
            versions["nccl"] = ".".join(map(str, nccl.version()))
        return versions

    def abort(self, status: int) -> None:
        os._exit(status)  # the launcher ends the others

    def is_echo(self, error: BaseException) -> bool:
        return any(text in str(error) for text in _ECHOES)


# -- values --------------------------------------------------------------------------------------


def _each_array(value: Any, change: Callable[[Any], Any]) -> Any:
    """Arrays changed, in tuples, lists and dicts too."""
    return _each(value, np.ndarray, change)


def _each_tensor(value: Any, device: Any) -> Any:
    """Tensors moved to a device, in tuples, lists and dicts too."""
    import torch

    return _each(value, torch.Tensor, lambda tensor: tensor.to(device))


def _each(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, (tuple, list)):
        items = [_each(item, kind, change) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: _each(item, kind, change) for key, item in value.items()}
    return value


# -- devices -------------------------------------------------------------------------------------


def clock_of(device: Any) -> HostClock:
    """The clock that times what runs on a device."""
    if device.type == "cpu":
        return HostClock()
    from ringside.jobs.real.recording_torch import DeviceClock

    return DeviceClock()


def device_name(device: Any) -> str:
    """As the record shows it."""
    if device.type == "cpu":
        return "cpu"
    import torch

    return f"{device} {torch.cuda.get_device_name(device)}"
