"""The course's GPT with its layers cut over t neighbouring ranks, and the batch over the rest.

    ranks 0 .. t-1 share a model: each has 1/t of the heads, hidden units and words
    ranks r, r + t, r + 2t, .. have the same part of it, and sum its gradients

Traced on fake tensors by lecture 8 for the ledger: the work and the traffic are those of a step.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import set_checkpoint_early_stop

from ringside.course.lectures import course_gpt as gpt


def summed(y: torch.Tensor, group: Any) -> torch.Tensor:
    """Sum over the ranks in the forward pass."""
    dist.all_reduce(y, group=group)
    return y


def copied(x: torch.Tensor, group: Any) -> torch.Tensor:
    """Sum over the ranks in the backward pass."""
    x.register_hook(lambda gradient: summed(gradient.clone(), group))  # type: ignore[no-untyped-call]
    return x


class CutLayer(nn.Module):
    """The course's layer with 1/t of the heads and of the hidden units on each of t ranks."""

    def __init__(self, width: int, num_heads: int, group: Any) -> None:
        super().__init__()
        part = width // group.size()
        self.num_heads, self.group = num_heads // group.size(), group
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * part), nn.Linear(part, width)
        self.up, self.down = nn.Linear(width, 4 * part), nn.Linear(4 * part, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, C) -> (B, T, C), a summand
        b, t, _ = x.shape
        q, k, v = (
            part.view(b, t, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )  # (B, heads / t, T, C / heads)
        scores = (q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        y = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1) @ v
        result: torch.Tensor = self.out(y.transpose(1, 2).reshape(b, t, -1))
        return result

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, C)
        x = x + summed(self.attention(copied(self.norm1(x), self.group)), self.group)
        hidden = F.gelu(self.up(copied(self.norm2(x), self.group)))  # (B, T, 4C / t)
        return x + summed(self.down(hidden), self.group)


class CutGpt(gpt.Gpt):
    """The course's GPT, its layers and its words cut over the ranks of a group."""

    def __init__(self, sizes: dict[str, int], group: Any) -> None:
        part = sizes["vocabulary"] // group.size()
        super().__init__(**{**sizes, "num_layers": 0, "vocabulary": part})
        self.group = group
        self.layers = nn.ModuleList(
            CutLayer(sizes["width"], sizes["num_heads"], group) for _ in range(sizes["num_layers"])
        )

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = summed(self.words(tokens), self.group) + self.positions.weight
        for layer in self.layers:
            x = gpt.again(layer, x)
        x = copied(self.norm(x), self.group)
        return torch.stack([gpt.again(self.loss, one) for one in x]).mean()

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        """Stands for the loss: two numbers for each token are summed over the ranks."""
        scores = F.linear(x, self.words.weight)  # of this rank's words
        exponentials = summed(scores.logsumexp(-1), self.group)
        return exponentials.mean() + summed(scores[:, 0].contiguous(), self.group).mean()


def groups(group: Any, t: int) -> tuple[Any, Any]:
    """The t neighbours that share a model, and the ranks that have the same part of it."""
    p, rank = group.size(), group.rank()
    models = [dist.new_group(list(range(first, first + t))) for first in range(0, p, t)]
    replicas = [dist.new_group(list(range(part, p, t))) for part in range(t)]
    return models[rank // t], replicas[rank % t]


def step(group: Any, sizes: dict[str, int], num_sequences: int, t: int) -> None:
    """One training step; gradients are summed layer by layer, behind the backward pass.

    Args:
        group: all ranks.
        sizes: as for ``course_gpt.Gpt``.
        num_sequences: of the t ranks that share a model.
        t: how many ranks share a model.
    """
    torch.set_default_dtype(torch.bfloat16)
    neighbours, replicas = groups(group, t)
    model = CutGpt(sizes, neighbours)
    parameters = list(model.parameters())
    gpt.flat_gradients(parameters)
    state = [torch.zeros(3, p.numel(), dtype=torch.float32) for p in parameters]
    under_way = gpt.reduce_layers(model, replicas)
    tokens = torch.zeros(num_sequences, sizes["sequence"], dtype=torch.long)
    with set_checkpoint_early_stop(False):
        model(tokens, tokens).backward()
    for module in (model.words, model.positions, model.norm):
        under_way.append(gpt.reduce_async(list(module.parameters()), replicas))
    for work in under_way:
        work.wait()
    gpt.adam(parameters, state, 1e-4)
