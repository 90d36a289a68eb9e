"""Steps of an optimizer that torch takes without a word, and that train nothing, or not together.

    no gradient    no parameter of the optimizer has one: they aren't the model's any more
    passed by      the gradients are of a model in DistributedDataParallel that was never called
    not wrapped    a parameter that came to such a model, or was unfrozen, after it was wrapped

Each is a remark beside the run's report: a program may have reduced these gradients itself.
"""

from __future__ import annotations

import weakref
from typing import Any

from torch.nn.modules.module import register_module_module_registration_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ringside.network.link import Link

_MOST_NAMES = 3


class Steps:
    """Looks at the steps of one call."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # Each wrapper, and the parameters whose gradients it reduces, by id.
        self._wrappers: list[tuple[weakref.ref[Any], set[int]]] = []
        self._hooks: list[Any] = []

    def watch(self) -> None:
        """Begin."""
        self._hooks = [
            register_module_module_registration_hook(self._registered),
            register_optimizer_step_pre_hook(self._begins),
        ]

    def unwatch(self) -> None:
        """End."""
        for hook in self._hooks:
            hook.remove()

    def _registered(self, module: Any, name: str, submodule: Any) -> None:
        if name == "module" and isinstance(module, DistributedDataParallel):
            known = {id(p) for p in submodule.parameters() if p.requires_grad}
            self._wrappers.append((weakref.ref(module), known))

    def _begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        stepped = {id(p) for p in parameters if p.grad is not None}
        if parameters and not stepped:
            self._remark(
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
            self._remark(
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
            self._remark(
                "not wrapped",
                f"takes gradients of this rank alone for {', '.join(names[:_MOST_NAMES])}{more}: "
                "DistributedDataParallel reduces those of the parameters that had requires_grad "
                "when it was made. Wrap the model after it has got its layers and was unfrozen.",
            )

    def _remark(self, name: str, sentence: str) -> None:
        self._link.remark(name, f"optimizer.step() at {self._link.line()} {sentence}")
