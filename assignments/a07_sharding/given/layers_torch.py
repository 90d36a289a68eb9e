"""Layers whose parameters live in one flat tensor, and a network to try them on.

    module's parameters    weight (2, 3)       bias (2)
    layer.full             w w w   w w w   b b 0           8 elements, padded to 9 for 3 ranks
    layer.shard            rank 0  rank 1  rank 2          each rank keeps 3 elements

The module's parameters stay where they are, as views of ``full``. So the module computes as before
whenever ``full`` has memory and holds the right numbers. ``free()`` gives the memory back:
``full`` and the views keep their shapes, and nothing may read them until ``allocate()``.

What autograd saved in the forward pass are such views, too. If ``full`` is freed after the forward
pass and filled again before the backward pass, autograd finds the same numbers again.

The network is a chain of layers, each linear and tanh:

    x -> linear -> tanh -> linear -> tanh -> ... -> y        layer k: widths[k] to widths[k + 1]

On simulated ranks each pass of a layer takes virtual time, and the timeline calls it "forward layer
3" or "backward layer 3". Every pass is announced, too: in tests of order the network answers with
factors that scale the pass's input, so that it can't have been computed before; everywhere else
they are 1.
"""

import torch
from torch import nn

import ringside

# -- one flat tensor -------------------------------------------------------------------------------


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


# -- a network -------------------------------------------------------------------------------------


def _begin(direction, number, seconds, given):
    """Announce a pass and let its time pass; returns its input, scaled in tests of order."""
    phase = f"{direction} layer {number}"
    given = ringside.announce(phase, given)
    ringside.compute(seconds=seconds, phase=phase)
    return given


class _BeginsForward(torch.autograd.Function):
    """The layer's input; its backward pass changes nothing."""

    @staticmethod
    def forward(ctx, x, number, forward_s):
        return _begin("forward", number, forward_s, x).view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class _BeginsBackward(torch.autograd.Function):
    """The layer's output; the layer's backward pass begins here."""

    @staticmethod
    def forward(ctx, y, number, backward_s):
        ctx.number, ctx.backward_s = number, backward_s
        return y.view_as(y)

    @staticmethod
    def backward(ctx, grad):
        return _begin("backward", ctx.number, ctx.backward_s, grad), None, None


class Layer(nn.Module):
    """Linear and tanh; shape ``(samples, width_in)`` to ``(samples, width_out)``."""

    def __init__(self, width_in, width_out, number, costs, bias, dtype):
        super().__init__()
        self.linear = nn.Linear(width_in, width_out, bias=bias, dtype=dtype)
        self.number, self.costs = number, costs

    def forward(self, x):
        x = _BeginsForward.apply(x, self.number, self.costs[0])
        y = torch.tanh(self.linear(x))
        return _BeginsBackward.apply(y, self.number, self.costs[1])


def network(widths, *, blocks=None, bias=True, costs=(1e-6, 2e-6), dtype="float64"):
    """A network of ``len(widths) - 1`` layers.

    Args:
        blocks: how many layers each child of the network has; None: its children are the layers.
        costs: seconds of virtual time of a layer's forward and of its backward pass.
    """
    layers = [
        Layer(*widths[k : k + 2], k, costs, bias, getattr(torch, dtype))
        for k in range(len(widths) - 1)
    ]
    if blocks is None:
        return nn.Sequential(*layers)
    left = iter(layers)
    return nn.Sequential(*(nn.Sequential(*(next(left) for _ in range(n))) for n in blocks))


def is_layer(module):
    """Whether a module is one of the network's layers."""
    return isinstance(module, Layer)


def loss_of(output, target):
    """Half the mean over the batch of ``|output - target|^2``."""
    return 0.5 * ((output - target) ** 2).sum() / len(output)
