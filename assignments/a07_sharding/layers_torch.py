"""A torch network of layers for trying out sharding: supplied, nothing to write.

    x -> linear -> tanh -> linear -> tanh -> ... -> y        layer k: widths[k] to widths[k + 1]

Each layer's forward and backward pass takes virtual time on simulated ranks, and the timeline
calls it "forward layer 3" or "backward layer 3"; on real ranks that is nothing.

Every pass is announced, too. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1.
"""

import torch
from torch import nn

import ringside


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
