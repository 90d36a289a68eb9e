"""A torch network for trying out data parallelism: supplied, nothing to write.

    x -> layer path[0] -> tanh -> layer path[1] -> tanh -> ... -> y        all of width d

A batch brings the path that it takes: which layers, in which order. So ranks can use different
layers, and make gradients ready in different orders. Layers can share a weight (tied), be frozen,
and the network can keep running means in buffers.

Each layer's backward pass takes ``backward_s`` of virtual time on simulated ranks, and the
timeline calls it "backward layer 3"; on real ranks that is nothing.

Every pass is announced, too. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1.
"""

import torch
from torch import nn

import ringside


class _Begins(torch.autograd.Function):
    """Announces a layer's forward pass, and returns its input, scaled in tests of order."""

    @staticmethod
    def forward(ctx, x, number):
        return ringside.announce(f"forward layer {number}", x).view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _Takes(torch.autograd.Function):
    """Passes its input on; its backward pass is announced and lets virtual time pass."""

    @staticmethod
    def forward(ctx, y, number, backward_s):
        ctx.number, ctx.backward_s = number, backward_s
        return y.view_as(y)

    @staticmethod
    def backward(ctx, grad):
        grad = ringside.announce(f"backward layer {ctx.number}", grad)
        ringside.compute(seconds=ctx.backward_s, phase=f"backward layer {ctx.number}")
        return grad, None, None


class Network(nn.Module):
    """Linear layers of one width, with tanh after each.

    Args:
        width: d.
        num_layers: layers 0, 1, ...; each has a weight (d, d) and a bias (d,).
        tied: pairs ``(i, j)``: layer j uses layer i's weight.
        frozen: layers whose parameters don't learn.
        buffers: keep the running mean of x, subtract it, and count positive inputs.
        dtype: of parameters and running mean.
        backward_s: seconds of virtual time that one layer's backward pass takes.
    """

    def __init__(
        self,
        width,
        num_layers,
        *,
        tied=(),
        frozen=(),
        buffers=False,
        backward_s=1e-6,
        dtype="float64",
    ):
        super().__init__()
        dtype = getattr(torch, dtype)
        self.layers = nn.ModuleList(nn.Linear(width, width, dtype=dtype) for _ in range(num_layers))
        for i, j in tied:
            self.layers[j].weight = self.layers[i].weight
        for number in frozen:
            self.layers[number].requires_grad_(False)
        if buffers:
            self.register_buffer("running", torch.zeros(width, dtype=dtype))
            self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.backward_s = backward_s

    def forward(self, x, path):
        """Shape ``(batch, d)`` to the same, through the layers of ``path``."""
        if hasattr(self, "running"):
            if self.training:
                self.running.mul_(0.9).add_(0.1 * x.detach().mean(dim=0))
                self.count += (x > 0).sum()
            x = x - self.running
        for number in path:
            y = torch.tanh(self.layers[number](_Begins.apply(x, number)))
            x = _Takes.apply(y, number, self.backward_s)
        return x


def loss_of(output, target):
    """Half the mean over the batch of ``|output - target|^2``."""
    return 0.5 * ((output - target) ** 2).sum() / len(output)
