"""Remarks on training that torch takes without a word, and that trains nothing, or not together.

    no gradient    a step, and no parameter of the optimizer has one: they aren't the model's
    passed by      a step of a model in DistributedDataParallel that was never called
    not wrapped    a step of a parameter that came to such a model, or was unfrozen, afterwards
    same order     a second epoch of a DistributedSampler that wasn't told of it

They stand beside the run's report: a program may mean it, and reduce these gradients itself.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data.distributed import DistributedSampler

from ringside.network.link import Link

_MOST_NAMES = 3


class Remarks:
    """Looks at the training of one call."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # Each wrapper, and the parameters whose gradients it reduces, by id.
        self._wrappers: list[tuple[weakref.ref[Any], set[int]]] = []
        self._epochs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._hooks: list[Any] = []
        self._iterate: Any = None

    def watch(self) -> None:
        """Begin."""
        self._hooks = [
            register_module_module_registration_hook(self._registered),
            register_optimizer_step_pre_hook(self._step_begins),
        ]
        iterate = self._iterate = DistributedSampler.__iter__

        def begin(sampler: Any) -> Any:
            self._epoch_begins(sampler)
            return iterate(sampler)

        DistributedSampler.__iter__ = begin  # type: ignore[method-assign]

    def unwatch(self) -> None:
        """End."""
        for hook in self._hooks:
            hook.remove()
        DistributedSampler.__iter__ = self._iterate  # type: ignore[method-assign]

    def _registered(self, module: Any, name: str, submodule: Any) -> None:
        if name == "module" and isinstance(module, DistributedDataParallel):
            known = {id(p) for p in submodule.parameters() if p.requires_grad}
            self._wrappers.append((weakref.ref(module), known))

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        stepped = {id(p) for p in parameters if p.grad is not None}
        if parameters and not stepped:
            self._remark_step(
                "no gradient",
                "changes nothing: no parameter of this optimizer has a gradient. fully_shard and "
                "its kin give a model new parameters, so make the optimizer after them.",
            )
        for reference, known in self._wrappers:
            wrapper = reference()
            if wrapper is not None and stepped:
                self._look_at(wrapper, known, stepped)

    def _look_at(self, wrapper: Any, known: set[int], stepped: set[int]) -> None:
        if not wrapper._lazy_init_ran and not known.isdisjoint(stepped):
            self._remark_step(
                "passed by",
                "takes gradients of this rank alone: DistributedDataParallel reduces them in "
                "passes through the wrapper, and there was none. Call model(x), not "
                "model.module(x).",
            )
        if stepped <= known:
            return
        names = [
            name
            for name, parameter in wrapper.module.named_parameters()
            if id(parameter) in stepped - known and name not in wrapper.parameters_to_ignore
        ]
        if names:
            more = ", ..." if len(names) > _MOST_NAMES else ""
            self._remark_step(
                "not wrapped",
                f"takes gradients of this rank alone for {', '.join(names[:_MOST_NAMES])}{more}: "
                "DistributedDataParallel reduces those of the parameters that had requires_grad "
                "when it was made. Wrap the model after it has got its layers and was unfrozen.",
            )

    def _epoch_begins(self, sampler: Any) -> None:
        if sampler.shuffle and self._epochs.get(sampler) == sampler.epoch:
            self._link.remark(
                "same order",
                f"DistributedSampler gives at {self._link.here} the order of the epoch before "
                "once more: call its set_epoch(epoch) before each epoch.",
            )
        self._epochs[sampler] = sampler.epoch

    def _remark_step(self, name: str, sentence: str) -> None:
        self._link.remark(name, f"optimizer.step() at {self._link.here} {sentence}")
