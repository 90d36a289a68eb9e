"""``ringside run --pretend-cuda``: programs for GPUs on CPU tensors, their work timed as a GPU's.

Every device "cuda" is the CPU, every stream is the rank's one order of work, an event tells the
virtual clock. Not pretended: kernels of one's own (CUDA, Triton), CUDA graphs, torch.compile's code
for GPUs, figures of memory, and that a transfer or a second stream overlaps with other work.
``tensor.device`` says cpu, ``tensor.is_cuda`` says True.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import torch.amp.autocast_mode
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

from ringside.network.link import Link, current

_BYTES = 80 << 30  # of the device that programs ask about; no run fills it
_torch: Any = torch  # whose stubs forbid what is replaced here
# Where a number as an argument is that of a device.
_DEVICE_AT: dict[Any, int] = {torch.Tensor.to: 1, torch.device: 0, _torch._C._nn._parse_to: 0}


class OnCpu(TorchFunctionMode):
    """Lets "cuda" mean the CPU in every function of torch and every method of a tensor."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func == torch.Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return True
        if func == torch.Tensor.cuda:
            return args[0]
        named = {name: _on_cpu(value, name == "device") for name, value in (kwargs or {}).items()}
        at = _DEVICE_AT.get(func)
        return func(*(_on_cpu(value, i == at) for i, value in enumerate(args)), **named)


class _Event:
    """A moment of the virtual clock."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._at_s = 0.0

    def record(self, stream: Any = None) -> None:
        self._at_s = current().wtime()

    def elapsed_time(self, end: _Event) -> float:
        """Milliseconds until another event."""
        return 1e3 * (end._at_s - self._at_s)

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        pass

    synchronize = wait


class _Stream:
    """The one order of work that a rank has."""

    device = torch.device("cpu")

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record_event(self, event: _Event | None = None) -> _Event:
        event = event or _Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self, *_: Any) -> None:
        pass

    wait_stream = wait_event = synchronize

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def install(link: Link) -> None:
    """Let this rank's torch have a GPU; for good."""
    device = SimpleNamespace(
        name="a GPU that Ringside pretends", total_memory=_BYTES, major=9, minor=0,
        multi_processor_count=132,
    )  # fmt: skip
    chosen = [link.rank]
    seed = torch.default_generator.manual_seed

    def set_device(number: Any) -> None:
        chosen[0] = torch.device("cuda", number).index if isinstance(number, int) else link.rank

    replaced: dict[str, Any] = {
        "init": _nothing, "_lazy_init": _nothing, "is_available": lambda: True,
        "is_initialized": lambda: True, "device_count": lambda: link.world_size,
        "set_device": set_device, "current_device": lambda: chosen[0],
        "get_device_name": lambda *_: device.name, "get_device_properties": lambda *_: device,
        "get_device_capability": lambda *_: (9, 0), "is_bf16_supported": lambda *_, **__: True,
        "synchronize": _nothing, "empty_cache": _nothing, "ipc_collect": _nothing,
        "mem_get_info": lambda *_: (_BYTES, _BYTES), "manual_seed": seed,
        "manual_seed_all": seed, "reset_peak_memory_stats": _nothing,
        "Event": _Event, "Stream": _Stream, "current_stream": _Stream, "default_stream": _Stream,
        "stream": lambda stream: stream or nullcontext(), "device": lambda *_: nullcontext(),
        "set_stream": _nothing,
    }  # fmt: skip
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved"):
        replaced[name] = lambda *_: 0
    vars(torch.cuda).update(replaced)
    vars(torch.accelerator).update(_accelerator(replaced))
    _torch.Tensor.pin_memory = lambda tensor, *_: tensor  # a DataLoader's thread asks for it, too
    autocast: Any = torch.amp.autocast_mode.autocast
    autocast.__init__ = _with_cpu(autocast.__init__)
    ddp: Any = DistributedDataParallel
    ddp.__init__ = _without_device_ids(ddp.__init__)
    mesh: Any = DeviceMesh
    mesh.__init__ = _of_cpus(mesh.__init__)
    vars(dist)["init_process_group"] = _without_device_id(dist.init_process_group)
    vars(distributed_c10d)["init_process_group"] = dist.init_process_group
    _torch.load = functools.partial(_load, torch.load)


def _accelerator(of_cuda: dict[str, Any]) -> dict[str, Any]:
    """The same for `torch.accelerator`, whose words for it differ from `torch.cuda`'s."""
    gpu = torch.device("cuda")
    names = ("is_available", "device_count", "synchronize", "empty_cache", "current_stream",
             "set_stream", "memory_allocated", "max_memory_allocated", "memory_reserved",
             "reset_peak_memory_stats")  # fmt: skip
    return {
        **{name: of_cuda[name] for name in names},
        "current_accelerator": lambda *_, **__: gpu,
        "set_device_index": of_cuda["set_device"], "set_device_idx": of_cuda["set_device"],
        "current_device_index": of_cuda["current_device"],
        "current_device_idx": of_cuda["current_device"], "device_index": of_cuda["device"],
    }  # fmt: skip


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _on_cpu(value: Any, is_device: bool = False) -> Any:
    if is_device and isinstance(value, int):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


def _with_cpu(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapped(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        init(self, device_type, dtype, *args, **kwargs)

    return wrapped


def _without_device_ids(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapped(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        init(self, module, None, None, *args, **kwargs)

    return wrapped


def _of_cpus(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapped(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        init(self, _on_cpu(device_type), *args, **kwargs)

    return wrapped


def _without_device_id(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapped(*args: Any, device_id: Any = None, **kwargs: Any) -> None:
        init(*args, **kwargs)

    return wrapped


def _load(load: Callable[..., Any], file: Any, map_location: Any = None, **kwargs: Any) -> Any:
    """Everything is on the CPU, wherever it is to go."""
    if map_location is None or not callable(map_location):
        map_location = "cpu"
    return load(file, map_location, **kwargs)
