"""Experts for torch: supplied, nothing to write. Weights are those of ``experts.drawn_experts``."""

import torch
from torch import nn


class Expert(nn.Module):
    """``relu(x W1) W2``; x has shape (n, d)."""

    def __init__(self, w1, w2):
        super().__init__()
        self.w1, self.w2 = (nn.Parameter(torch.tensor(each)) for each in (w1, w2))

    def forward(self, x):
        """Shape (n, d) again."""
        return torch.relu(x @ self.w1) @ self.w2


class Gate(nn.Module):
    """A gate that has chosen: its experts are given, its weights are learnt.

    Args:
        weight: shape (d, E).
        experts: shape (T, k), int64.
        kept: shape (T, k), bool.
    """

    def __init__(self, weight, experts, kept):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight))
        self.register_buffer("experts", torch.as_tensor(experts))
        self.register_buffer("kept", torch.as_tensor(kept))

    def forward(self, x):
        """``(experts, weights, kept)``, each of shape (T, k); weights know their gradient."""
        scores = torch.sigmoid(x @ self.weight)
        return self.experts, scores.gather(1, self.experts) * self.kept, self.kept
