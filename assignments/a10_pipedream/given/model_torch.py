"""A stage's module in torch, and the loss: supplied, nothing to write.

    x -> linear -> tanh -> linear -> tanh -> y        one piece of the model; stage s has piece s

``module(x)`` computes with the module's own parameters. With those of another version, a dict from
names to tensors, it is ``torch.func.functional_call(module, version, (x,))``.

Each forward and each backward pass takes virtual time on simulated ranks, and timelines call it
"F of piece 2"; on real ranks that is nothing.

Every pass is announced, too. In tests of order the network answers with factors that scale the
pass's input, so that it can't have been computed before; everywhere else they are 1.
"""

import torch
from torch import nn

import ringside


def _begin(letter, number, seconds, given):
    """Announce a pass and let its time pass; returns its input, scaled in tests of order."""
    phase = f"{letter} of piece {number}"
    given = ringside.announce(phase, given)
    ringside.compute(seconds=seconds, phase=phase)
    return given


class _BeginsForward(torch.autograd.Function):
    """The piece's input; its backward pass changes nothing."""

    @staticmethod
    def forward(ctx, x, number, seconds):
        return _begin("F", number, seconds, x).view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class _BeginsBackward(torch.autograd.Function):
    """The piece's output; the piece's backward pass begins here."""

    @staticmethod
    def forward(ctx, y, number, seconds):
        ctx.number, ctx.seconds = number, seconds
        return y.view_as(y)

    @staticmethod
    def backward(ctx, grad):
        return _begin("B", ctx.number, ctx.seconds, grad), None, None


class Piece(nn.Module):
    """Two layers; shape ``(samples, width_in)`` to ``(samples, width_out)``.

    Args:
        widths: input, hidden, output.
        number: which piece of the model it is.
        forward_s: virtual time of a forward pass.
        backward_s: of a backward pass.
    """

    def __init__(self, widths, number=0, forward_s=1e-6, backward_s=2e-6):
        super().__init__()
        self.width_in, hidden, self.width_out = widths
        self.first = nn.Linear(self.width_in, hidden, dtype=torch.float64)
        self.second = nn.Linear(hidden, self.width_out, dtype=torch.float64)
        self.number = number
        self.forward_s, self.backward_s = forward_s, backward_s

    def forward(self, x):
        x = _BeginsForward.apply(x, self.number, self.forward_s)
        y = torch.tanh(self.second(torch.tanh(self.first(x))))
        return _BeginsBackward.apply(y, self.number, self.backward_s)


def loss_of(output, target):
    """Half the mean over a minibatch's samples of ``|output - target|^2``; a tensor."""
    return 0.5 * ((output - target) ** 2).sum() / len(output)
