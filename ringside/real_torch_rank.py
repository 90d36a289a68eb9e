"""One rank of a real run over torch.distributed: what ``torchrun`` or ``srun`` starts.

    torchrun --standalone --nproc-per-node 2 -m ringside.real_torch_rank \\
        ring_torch.py:all_reduce --world-size 2 --backend gloo --length 1000

RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT say who it is and where the others are.
With nccl the rank's GPU is ``cuda:LOCAL_RANK``, the current device before anything else happens.

A function gets the group of all ranks, and tensors in the place of arrays, on that device; one
that returns nothing is compared by its first tensor, which it overwrites. A script finds no group:
it calls ``dist.init_process_group()`` itself. ``ringside.real_run`` says what is measured and what
stays behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from ringside import real_run
from ringside.recorder import HostClock, Recorder, recording_here
from ringside.watch import Watch
from ringside.world import Target

_ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# What gloo and NCCL say on a rank whose peer has gone.
_ECHOES = (
    *("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket closed"),
    *("remote process exited", "ncclRemoteError", "Application timeout caused pair closure"),
)


class TorchRanks(real_run.Ranks):
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
        elif self._torch_device.type == "cuda":
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

        found = tensors.tensors_in(list(given))
        if result is None and found:
            result = found[0]
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
        from ringside.recording_torch import counted_operators, recording

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
    from ringside.recording_torch import DeviceClock

    return DeviceClock()


def device_name(device: Any) -> str:
    """As the record shows it."""
    if device.type == "cpu":
        return "cpu"
    import torch

    return f"{device} {torch.cuda.get_device_name(device)}"


def _device(backend: str) -> Any:
    """The rank's device, made the current one."""
    import torch

    if backend == "gloo":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    return device


def _no_device(backend: str) -> str | None:
    """Why this rank has no device, or None."""
    if backend == "gloo":
        return None
    import torch

    local, count = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local < count:
        return None
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        f"local rank {local} of {os.uname().nodename} needs GPU {local}, and torch sees {count} "
        f"there (CUDA_VISIBLE_DEVICES is {'not set' if seen is None else repr(seen)}). Ask for as "
        "many GPUs as ranks on a node (--gpus-per-node), and don't bind each task to one."
    )


# -- the process ---------------------------------------------------------------------------------


def main() -> int:
    """Be a rank; returns the exit status."""
    parser = real_run.parser("python -m ringside.real_torch_rank")
    parser.add_argument("--backend", choices=("gloo", "nccl"), default="gloo")
    asked = real_run.parse(parser)
    real_run.begin()
    rank = int(os.environ.get("RANK", "0"))
    why_not = _wrong_start(asked)
    if why_not:
        return real_run.refuse(asked, rank, "size", why_not)
    why_not = _no_device(asked.backend)
    if why_not:
        return real_run.refuse(asked, rank, "asked", why_not)
    target = Target.parse(asked.target)
    device = _device(asked.backend)
    recorder = Recorder(
        clock_of(device), most_calls=None if target.function else real_run.MOST_CALLS
    )
    recorder.enabled = False
    ranks = TorchRanks(asked.backend, device, recorder)
    started = time.time()
    asked.scratch.mkdir(parents=True, exist_ok=True)
    watch = Watch(asked.deadline_s, rank, ranks.world_size, asked.scratch, recorder)
    measurements: list[dict[str, Any]] = []
    if target.function:
        why_not = _initialise(asked, device, ranks, recorder)
        if why_not:
            return real_run.refuse(asked, rank, "asked", why_not)
    with real_run.reported(asked, ranks):
        if target.function:
            measurements = real_run.measure(target, asked, ranks)
        else:
            _run_script(target, asked, ranks, recorder)
    real_run.leave_record(asked, target, ranks, recorder, measurements, started)
    watch.close()
    _leave_groups()
    return 0


def _wrong_start(asked: argparse.Namespace) -> str | None:
    """Why the environment is not that of a rank of this run, or None."""
    missing = [name for name in _ENVIRONMENT if not os.environ.get(name)]
    if missing:
        return (
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: start the ranks "
            "with torchrun, or with srun and these variables as in cluster/templates."
        )
    size = int(os.environ["WORLD_SIZE"])
    if size != asked.world_size:
        return (
            f"asked for {asked.world_size} ranks, but WORLD_SIZE is {size}: the launcher started "
            "another number of ranks than the job has. One torchrun a node wants "
            "--nnodes and --nproc-per-node, srun wants --ntasks."
        )
    return None


def _initialise(
    asked: argparse.Namespace, device: Any, ranks: TorchRanks, recorder: Recorder
) -> str | None:
    """Make the default group for a function; returns why that could not be done, or None."""
    import torch.distributed as dist

    waiting = f"init_process_group() at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    try:
        with recorder.call(f"{waiting}, until all ranks are there"):
            dist.init_process_group(
                asked.backend,
                timeout=timedelta(seconds=asked.deadline_s + 60),  # the watch is first
                device_id=None if device.type == "cpu" else device,
            )
            ranks.meet()
            ranks.allgather(ranks.rank)
    except Exception as error:
        return f"the ranks did not find each other: {waiting}: {error}"
    return None


def _run_script(
    target: Target, asked: argparse.Namespace, ranks: TorchRanks, recorder: Recorder
) -> None:
    import torch.distributed as dist

    from ringside.recording_torch import recording

    _meet_where_the_script_initialises(ranks, recorder)
    with recording(recorder):
        real_run.run_script(target, asked, ranks, recorder)
    if ranks.world_size > 1 and not ranks.has_met:
        dist.init_process_group("gloo")
        ranks.meet()


def _meet_where_the_script_initialises(ranks: TorchRanks, recorder: Recorder) -> None:
    """Take the group's store when there is one, and let the recorded time begin then."""
    import functools

    import torch.distributed as dist

    original = dist.distributed_c10d.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if not ranks.has_met:
            ranks.meet()
            ranks.allgather(None)  # so that all clocks begin together
            recorder.restart()
        return result

    for module in list(sys.modules.values()):
        if vars(module).get("init_process_group") is original:
            vars(module)["init_process_group"] = init_process_group


def _leave_groups() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
