"""The pieces of a torch network: nothing to write.

    x -> linear -> tanh -> dropout -> linear -> tanh -> y        one piece

Each forward and each backward pass takes virtual time on simulated ranks, and timelines call it
"F of piece 5"; on real ranks that is nothing.

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
    def forward(ctx, x, number, forward_s):
        return _begin("F", number, forward_s, x).view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


class _BeginsBackward(torch.autograd.Function):
    """The piece's output; the piece's backward pass begins here."""

    @staticmethod
    def forward(ctx, y, number, backward_s):
        ctx.number, ctx.backward_s = number, backward_s
        ctx.save_for_backward(y)
        return y.view_as(y)

    @staticmethod
    def backward(ctx, grad):
        _ = ctx.saved_tensors  # with checkpointing, the forward pass is made again here
        return _begin("B", ctx.number, ctx.backward_s, grad), None, None


class Piece(nn.Module):
    """Two layers; shape ``(samples, width_in)`` to ``(samples, width_out)``.

    Args:
        widths: input, hidden, output.
        number: which piece of the model it is.
        costs: seconds of virtual time of a forward and of a backward pass.
        dropout: probability with which a hidden value is left out.
    """

    def __init__(self, widths, number=0, costs=(1e-6, 2e-6), dropout=0.0):
        super().__init__()
        self.width_in, hidden, self.width_out = widths
        self.first = nn.Linear(self.width_in, hidden, dtype=torch.float64)
        self.second = nn.Linear(hidden, self.width_out, dtype=torch.float64)
        self.dropout = nn.Dropout(dropout)
        self.number, self.costs = number, costs

    def forward(self, x):
        x = _BeginsForward.apply(x, self.number, self.costs[0])
        hidden = self.dropout(torch.tanh(self.first(x)))
        y = torch.tanh(self.second(hidden))
        return _BeginsBackward.apply(y, self.number, self.costs[1])


def loss_of(output, target, batch_size):
    """This microbatch's part of half the mean over the whole batch of ``|output - target|^2``.

    Args:
        batch_size: samples of all microbatches together.
    """
    return 0.5 * ((output - target) ** 2).sum() / batch_size
