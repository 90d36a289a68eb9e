"""Layers whose parameters live in one flat tensor: supplied, nothing to write.

    module's parameters    weight (2, 3)       bias (2)
    layer.full             w w w   w w w   b b 0           8 elements, padded to 9 for 3 ranks
    layer.shard            rank 0  rank 1  rank 2          each rank keeps 3 elements

The module's parameters stay where they are, as views of ``full``. So the module computes as before
whenever ``full`` has memory and holds the right numbers. ``free()`` gives the memory back:
``full`` and the views keep their shapes, and nothing may read them until ``allocate()``.

What autograd saved in the forward pass are such views, too. If ``full`` is freed after the forward
pass and filled again before the backward pass, autograd finds the same numbers again.
"""

import torch
from torch import nn


def layers_of(module, is_layer=None):
    """The submodules that are sharded, each with at least one parameter, in their order.

    Args:
        is_layer: a function of a submodule that says whether it is sharded as one layer; None:
            the module's children are.

    Raises:
        ValueError: a parameter is in none of the layers, or in two.
    """
    found = (
        list(module.children()) if is_layer is None else list(filter(is_layer, module.modules()))
    )
    layers = [each for each in found if any(True for _ in each.parameters())]
    held = [id(param) for layer in layers for param in layer.parameters()]
    for name, param in module.named_parameters():
        if held.count(id(param)) != 1:
            where = "two layers" if id(param) in held else "no layer that is sharded"
            raise ValueError(f"the parameter {name} is in {where}; it must be in exactly one.")
    return layers


class FlatLayer:
    """A module, its parameters in one flat tensor, and the shard that this rank keeps.

    It begins without memory for ``full``: only the shard is kept.

    Args:
        module: its parameters are of one dtype, and all require a gradient.
        world_size: p; the flat tensor is padded with zeros to a multiple of p elements.
        rank: which of the p equal parts is kept.

    Attributes:
        module: the module.
        full: the flat tensor of all parameters, one after another; autograd doesn't see it.
        shard: an ``nn.Parameter`` of its own, a copy of part ``rank`` of ``full``.
    """

    def __init__(self, module, world_size, rank):
        self.module = module
        self._params = list(module.parameters())
        lengths = [param.numel() for param in self._params]
        self._padding = -sum(lengths) % world_size
        zeros = self._params[0].new_zeros(self._padding)
        self.full = torch.cat([*(p.detach().reshape(-1) for p in self._params), zeros])
        parts = self.full[: sum(lengths)].split(lengths)
        for param, part in zip(self._params, parts, strict=True):
            param.data = part.view(param.shape)
        self.shard = nn.Parameter(self.full.chunk(world_size)[rank].clone())
        self.free()

    def free(self):
        """Give the memory of ``full`` back."""
        self.full.untyped_storage().resize_(0)

    def allocate(self):
        """Get memory for ``full``; what stands in it is arbitrary."""
        self.full.untyped_storage().resize_(self.full.numel() * self.full.element_size())

    def take_gradient(self):
        """The gradients of all parameters as one new flat tensor, zeros in the padding.

        The parameters' ``grad`` is None afterwards.
        """
        gradients = [param.grad.reshape(-1) for param in self._params]
        flat = torch.cat([*gradients, gradients[0].new_zeros(self._padding)])
        for param in self._params:
            param.grad = None
        return flat

    def when_gradients_are_there(self, call):
        """In each backward pass, call ``call()`` once all parameters have their gradients."""
        waiting = set(self._params)

        def ready(param):
            waiting.discard(param)
            if not waiting:
                waiting.update(self._params)
                call()

        for param in self._params:
            param.register_post_accumulate_grad_hook(ready)
