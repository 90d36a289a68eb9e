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
        self.weight = nn.Parameter(torch.as_tensor(weight).clone())
        self.register_buffer("experts", torch.as_tensor(experts))
        self.register_buffer("kept", torch.as_tensor(kept))

    def forward(self, x):
        """``(experts, weights, kept)``, each of shape (T, k); weights know their gradient."""
        scores = torch.sigmoid(x @ self.weight)
        return self.experts, scores.gather(1, self.experts) * self.kept, self.kept


def by_expert(rows, coming):
    """Rows that came from all ranks, sorted by expert.

    Args:
        rows: shape (n, d): rank 0's rows, sorted by expert, then rank 1's, ...
        coming: shape (p, mine): how many rows of each rank are for each expert of this rank.

    Returns:
        For each expert its rows, those of rank 0 first.
    """
    pieces, mine = rows.split(coming.flatten().tolist()), coming.shape[1]
    return [torch.cat([rows[:0], *pieces[e::mine]]) for e in range(mine)]


def by_rank(answers, coming, like):
    """The inverse of ``by_expert``: one tensor, of the dtype of ``like``, rank 0 first."""
    parts = [own.split(coming[:, e].tolist()) for e, own in enumerate(answers)]
    return torch.cat([like[:0], *(part for one in zip(*parts, strict=True) for part in one)])
