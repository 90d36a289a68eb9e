"""Memory of a rank by kind, from every allocation and release of a tensor's storage.

    parameters      of modules, and what an optimizer is given
    gradients       the ``grad`` of parameters
    optimizer       what an optimizer keeps
    communication   tensors handed to a communication call that are none of the above
    activations     everything else that operators make: activations, temporaries, data

A storage's kind often shows later than the storage: a gradient is a temporary until it becomes
somebody's ``grad``. So allocations are logged, kinds are noted when they show, and the peaks are
worked out at the end, every storage counting as its final kind for all its life. Tensors that the
call was given as arguments aren't counted, nor those on "meta", which have shapes and no memory.

torch's own ``torch.distributed._tools.mem_tracker`` decides a kind at allocation, knows neither
communication nor parameters outside modules, and puts hooks on every module and parameter.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

# The order is a precedence: of the kinds that a storage shows, the first one here stays (`_mark`).
KINDS = ("parameters", "gradients", "optimizer", "communication", "activations")
_PARAMETERS, _GRADIENTS, _OPTIMIZER, _COMMUNICATION, _ACTIVATIONS = range(len(KINDS))


class _Storage:
    """One allocation: its size now, and its kind as far as it is known."""

    __slots__ = ("counted", "kind", "nbytes", "reference")

    def __init__(self, reference: Any, counted: bool) -> None:
        self.reference = reference
        self.counted = counted
        self.kind = _ACTIVATIONS
        self.nbytes = 0


class Memory:
    """The log of one call."""

    def __init__(self) -> None:
        self._log: list[tuple[_Storage, int]] = []
        self._last = 0  # length of the log at the last operator
        self._stepped = 0  # and at the end of the last step of an optimizer
        self._storages: dict[int, _Storage] = {}
        self._parameters: dict[int, weakref.ref[torch.Tensor]] = {}
        self._hooks: list[Any] = []
        self._resize: Any = None
        self._in_optimizer = False
        self._was_backward = False

    # -- watching --------------------------------------------------------------------------------

    def watch(self) -> None:
        """Begin: learn of parameters, optimizers and resized storages."""
        self._hooks = [
            register_module_parameter_registration_hook(self._registered),
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ended),
        ]
        # FSDP2 frees and refills gathered parameters by this method, which is no operator.
        resize = self._resize = torch.UntypedStorage.resize_

        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            result = resize(storage, size)
            entry = self._storages.get(storage._cdata)
            if entry is not None:
                self._resized(entry, storage.nbytes())
            return result

        torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign,assignment]

    def unwatch(self) -> None:
        """End."""
        for hook in self._hooks:
            hook.remove()
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]

    def phase(self) -> str:
        """What the rank is doing: forward, backward or optimizer."""
        if torch._C._current_graph_task_id() != -1:
            self._was_backward = True
            return "backward"
        if self._was_backward:
            self._was_backward = False
            self._find_gradients()
        return "optimizer" if self._in_optimizer else "forward"

    # -- what happens ----------------------------------------------------------------------------

    def given(self, tensors: Iterable[torch.Tensor]) -> None:
        """Tensors that aren't the call's own."""
        for tensor in tensors:
            self._entry(tensor, counted=False)

    def made(self, tensors: Iterable[torch.Tensor]) -> None:
        """An operator's outputs; those with storage of their own are allocations."""
        for tensor in tensors:
            self._entry(tensor)
        self._last = len(self._log)

    def communicated(self, tensors: Iterable[torch.Tensor]) -> None:
        """Tensors that are sent or received into."""
        self._find_gradients()
        for tensor in tensors:
            self._mark(tensor, _COMMUNICATION)

    def _registered(self, module: Any, name: str, parameter: Any) -> None:
        if isinstance(parameter, torch.Tensor):
            self._is_parameter(parameter)

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._in_optimizer = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._is_parameter(parameter)
        self._find_gradients()

    def _step_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._in_optimizer = False
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    self._mark(value, _OPTIMIZER)
        self._stepped = len(self._log)

    def _is_parameter(self, parameter: torch.Tensor) -> None:
        self._parameters[id(parameter)] = weakref.ref(parameter)
        self._mark(parameter, _PARAMETERS)

    def _find_gradients(self) -> None:
        for key, reference in list(self._parameters.items()):
            parameter = reference()
            if parameter is None:
                del self._parameters[key]
            elif parameter.grad is not None:
                self._mark(parameter.grad, _GRADIENTS)

    # -- the log ---------------------------------------------------------------------------------

    def _entry(self, tensor: torch.Tensor, *, counted: bool = True) -> _Storage | None:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # a subclass without storage of its own
            return None
        number = storage._cdata
        entry = self._storages.get(number)
        if entry is None:
            # The number is an address, and may come again: the callback must forget it when its
            # storage dies.
            reference = weakref.ref(storage, functools.partial(self._released, number))
            has_memory = tensor.device.type != "meta"
            entry = self._storages[number] = _Storage(reference, counted and has_memory)
        if entry.nbytes != storage.nbytes():
            self._resized(entry, storage.nbytes())
        return entry

    def _mark(self, tensor: torch.Tensor, kind: int) -> None:
        local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
        entry = self._entry(local)
        if entry is not None and kind < entry.kind:
            entry.kind = kind

    def _resized(self, entry: _Storage, nbytes: int) -> None:
        if entry.counted:
            self._log.append((entry, nbytes - entry.nbytes))
        entry.nbytes = nbytes

    def _released(self, number: int, reference: Any) -> None:
        entry = self._storages.pop(number, None)
        if entry is not None:
            self._resized(entry, 0)

    def report(self) -> dict[str, Any]:
        """Bytes: the ``peak`` and its kinds, each kind's own peak, and what is live when.

        ``live``: at the last operator, when the call's variables are still there.
        ``after_step``: after the last step of an optimizer of torch's: what persists.
        """
        self._find_gradients()
        now = [0] * len(KINDS)
        highest = [0] * len(KINDS)
        peak, at_peak = 0, [0] * len(KINDS)
        after_step = list(now)
        for number, (entry, change) in enumerate(self._log[: self._last], 1):
            now[entry.kind] += change
            highest[entry.kind] = max(highest[entry.kind], now[entry.kind])
            if change > 0 and sum(now) > peak:
                peak, at_peak = sum(now), list(now)
            if number == self._stepped:
                after_step = list(now)
        return {
            "peak": peak,
            "at_peak": dict(zip(KINDS, at_peak, strict=True)),
            "peak_by_kind": dict(zip(KINDS, highest, strict=True)),
            "live": dict(zip(KINDS, now, strict=True)),
            "after_step": dict(zip(KINDS, after_step, strict=True)),
        }
