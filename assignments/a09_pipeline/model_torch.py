"""The pieces of a torch network: supplied, nothing to write.

    x -> linear -> tanh -> dropout -> linear -> tanh -> y        one piece

Each forward and each backward pass takes virtual time on simulated ranks, and timelines call it
"F of piece 5"; on real ranks that is nothing.
"""

import torch
from torch import nn

import ringside


class _Takes(torch.autograd.Function):
    """Passes its input on; its backward pass lets virtual time pass."""

    @staticmethod
    def forward(ctx, hidden, number, backward_s):
        ctx.number, ctx.backward_s = number, backward_s
        return hidden.view_as(hidden)

    @staticmethod
    def backward(ctx, grad):
        ringside.compute(seconds=ctx.backward_s, phase=f"B of piece {ctx.number}")
        return grad, None, None


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
        ringside.compute(seconds=self.costs[0], phase=f"F of piece {self.number}")
        hidden = self.dropout(torch.tanh(self.first(x)))
        return torch.tanh(self.second(_Takes.apply(hidden, self.number, self.costs[1])))


def loss_of(output, target, batch_size):
    """This microbatch's part of half the mean over the whole batch of ``|output - target|^2``.

    Args:
        batch_size: samples of all microbatches together.
    """
    return 0.5 * ((output - target) ** 2).sum() / batch_size
