"""What operators cost: FLOPs and bytes of memory traffic, counted where torch dispatches them.

    matrix products, convolutions, attention   FLOPs by torch's own registry; bytes in and out
    anything else                              bound by memory: bytes in and out
    views, allocations, communication          nothing

Time is the machine's roofline (``Machine.compute_s``). Forward, backward, hooks and optimizers run
in the rank's one thread and are all seen, except for what C++ does inside one operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ringside.network.link import Link
from ringside.pytorch.memory import Memory
from ringside.pytorch.remarks import Remarks

# Their outputs are views in all but name, or memory that nobody has written yet.
_FREE = {
    *("_unsafe_view", "alias", "detach", "lift_fresh", "set_", "resize_", "is_same_size"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"),
    *("_local_scalar_dense", "_reshape_alias", "is_pinned", "_pin_memory", "record_stream"),
}
# They read as much of their first tensor as they write.
_READS_PART = {"embedding", "gather", "index", "index_select", "take", "masked_select"}
_FREE_NAMESPACES = {
    *("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd"),
    "prim",  # questions about a fake tensor
}

# torch's registry doesn't know attention on CPUs; its arguments are those of the other kinds.
_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: flop_registry[
        torch.ops.aten._scaled_dot_product_efficient_attention
    ],
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: flop_registry[
        torch.ops.aten._scaled_dot_product_efficient_attention_backward
    ],
}

FREE, PART, CALCULATES, MOVES = range(4)


_Mode: Any = TorchDispatchMode


class Meter(_Mode):  # type: ignore[misc]
    """Counts the work and the memory of what is dispatched inside it, on the link's clock.

    Args:
        fakes: the mode that the run itself is in, where it runs on fake tensors.
    """

    def __init__(self, link: Link, fakes: FakeTensorMode | None = None) -> None:
        super().__init__()
        self._fakes = fakes
        self.memory = Memory()
        self._remarks = Remarks(link)
        self._link = link
        self._known_flops: dict[Any, float] = {}
        self._classes: dict[Any, tuple[int, Callable[..., Any] | None]] = {}

    def __enter__(self) -> Meter:
        self.memory.watch()
        self._remarks.watch()
        _active.append(self.memory)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _active.remove(self.memory)
        self.memory.unwatch()
        self._remarks.unwatch()

    def __torch_dispatch__(
        self, func: Any, types: Iterable[Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.count(func, types, args, kwargs)

    def count(self, func: Any, types: Iterable[Any], args: Any, kwargs: Any) -> Any:
        """Run an operator and count it."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it becomes operators on local tensors, which come here again
        kwargs = kwargs or {}
        result = self.run(func, args, kwargs)
        outputs = _tensors(result)
        if self._only_shapes(outputs):
            return result
        entry = self._classes.get(func)
        if entry is None:
            entry = self._classes[func] = _classify(func)
        kind, flops_of = entry
        # Asked for free operators too: it notices there that a backward pass has ended.
        phase = self.memory.phase()
        if kind != FREE:
            self._count(kind, flops_of, args, kwargs, result, outputs, phase)
        self.memory.made(outputs)
        return result

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result."""
        return func(*args, **kwargs)

    def _only_shapes(self, outputs: list[torch.Tensor]) -> bool:
        """Whether a library works out shapes on fake tensors now, and nothing is computed."""
        if self._fakes is not None:
            return len(self._fakes.enter_stack) > 1  # entered again inside the run's own
        return bool(outputs) and isinstance(outputs[0], FakeTensor)

    def _count(
        self,
        kind: int,
        flops_of: Any,
        args: Any,
        kwargs: Any,
        result: Any,
        outputs: Any,
        phase: str,
    ) -> None:
        written = sum(map(_nbytes, outputs))
        if kind == PART:
            self._link.work(0.0, 0.0, 2.0 * written, phase)
            return
        read = sum(map(_nbytes, _tensors(args))) + sum(map(_nbytes, _tensors(kwargs.values())))
        if flops_of is None:
            self._link.work(0.0, 0.0, float(read + written), phase)
        else:
            flops = self._flops(flops_of, args, kwargs, result)
            self._link.work(flops, float(read + written), 0.0, phase)

    def _flops(self, flops_of: Any, args: Any, kwargs: Any, result: Any) -> float:
        """torch's formula, worked out once for the same shapes and options."""
        key = (flops_of, *map(_shape, args), *((n, _shape(v)) for n, v in kwargs.items()))
        try:
            flops = self._known_flops.get(key)
        except TypeError:  # an option that can't be hashed
            return float(flops_of(*args, **kwargs, out_val=result))
        if flops is None:
            flops = self._known_flops[key] = float(flops_of(*args, **kwargs, out_val=result))
        return flops


_active: list[Memory] = []


def communicated(*groups: Iterable[torch.Tensor]) -> None:
    """Note tensors that a communication call was given."""
    if _active:
        for tensors in groups:
            _active[-1].communicated(tensors)


def _classify(func: Any) -> tuple[int, Callable[..., Any] | None]:
    packet = getattr(func, "_overloadpacket", func)
    name = getattr(packet, "__name__", "")
    if getattr(func, "namespace", "") in _FREE_NAMESPACES or name in _FREE:
        return FREE, None
    if getattr(func, "is_view", False):
        return FREE, None
    flops_of = flop_registry.get(packet) or _ATTENTION.get(packet)
    if flops_of is not None:
        return CALCULATES, flops_of
    return (PART if name in _READS_PART else MOVES), None


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in an operator's arguments or results: alone, or in lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    tensors = []
    for item in value if isinstance(value, Iterable) and not isinstance(value, str) else ():
        if isinstance(item, torch.Tensor):
            tensors.append(item)
        elif isinstance(item, (list, tuple)):
            tensors += [inner for inner in item if isinstance(inner, torch.Tensor)]
    return tensors


def _shape(value: Any) -> Any:
    """What a formula may depend on, as part of a key."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    if isinstance(value, (list, tuple)):
        return tuple(map(_shape, value))
    return value


def _nbytes(tensor: torch.Tensor) -> int:
    """Bytes of memory that reading the tensor touches; an expanded one has fewer than elements."""
    nbytes = tensor.numel() * tensor.element_size()
    if tensor.is_contiguous():
        return nbytes
    try:
        return min(nbytes, tensor.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):  # a subclass without storage
        return nbytes
