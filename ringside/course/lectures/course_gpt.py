"""The small GPT of the ledger as a torch program: one training step, for tracing on fake tensors.

    forward     embedding | layer 0 | layer 1 | ... | last layer | loss
    backward    each layer forward once more, then its gradients, from the last layer to the first
    gradients   one all-reduce at the end, or one for each layer as soon as it is ready, or none
    update      Adam, on a copy of the weights in 32 bits

All in bf16. For a parameter a rank keeps 2 bytes of weight, 2 of gradient, and 4 each of the weight
in 32 bits and of Adam's two moments: 16 bytes. `ringside.course.lectures.ledger` holds the sizes.

Source of the sizes, and of computing each layer forward twice: Narayanan et al. 2021, "Efficient
large-scale language model training on GPU clusters using Megatron-LM", table 1 and section 3.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop


class Layer(nn.Module):
    """Attention and a perceptron, each with a layer norm before it and a residual around it."""

    def __init__(self, width: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, T, C)
        b, t, c = x.shape
        q, k, v = (
            part.view(b, t, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(c, dim=-1)
        )  # (B, heads, T, C / heads)
        scores = (q @ k.transpose(2, 3)) * (c // self.num_heads) ** -0.5  # (B, heads, T, T)
        seen = torch.ones(t, t, dtype=torch.bool).tril()
        y = scores.masked_fill(~seen, float("-inf")).softmax(dim=-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        hidden: torch.Tensor = F.gelu(self.up(self.norm2(x)))  # (B, T, 4C)
        result: torch.Tensor = x + self.down(hidden)
        return result


class Gpt(nn.Module):
    """Words and positions, the layers, a last norm; the words serve as the last matrix too."""

    def __init__(
        self, num_layers: int, width: int, num_heads: int, sequence: int, vocabulary: int
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.layers = nn.ModuleList(Layer(width, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.positions.weight  # (B, T, C)
        for layer in self.layers:
            x = again(layer, x)
        x = self.norm(x)
        # Scores of all words exist for one sequence at a time: 51,200 numbers a token are many.
        losses = [again(loss, x[i], self.words.weight, targets[i]) for i in range(len(x))]
        return torch.stack(losses).mean()


def again(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> torch.Tensor:
    """Call a function and keep its arguments alone; the backward pass calls it once more."""
    result: torch.Tensor = checkpoint(function, *args, use_reentrant=False)
    return result


def loss(x: torch.Tensor, words: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of one sequence."""
    return F.cross_entropy(F.linear(x, words), targets)


def flat_gradients(parameters: list[nn.Parameter]) -> torch.Tensor:
    """One array that all gradients are views of, so that any stretch of it can be reduced."""
    flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
    pieces = torch.split(flat, [p.numel() for p in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    return flat


def reduce_layers(model: Gpt, group: Any) -> list[dist.Work]:
    """All-reduce each layer's gradients once they are all there; return what is under way."""
    under_way: list[dist.Work] = []
    for layer in model.layers:
        parameters = list(layer.parameters())
        ready: list[nn.Parameter] = []

        def one(
            parameter: nn.Parameter,
            ready: list[nn.Parameter] = ready,
            parameters: list[nn.Parameter] = parameters,
        ) -> None:
            ready.append(parameter)
            if len(ready) == len(parameters):
                under_way.append(reduce_async(parameters, group))

        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(one)  # type: ignore[no-untyped-call]
    return under_way


def reduce_async(parameters: list[nn.Parameter], group: Any) -> dist.Work:
    """Start an all-reduce of the stretch of the flat array that holds these gradients."""
    first = parameters[0].grad
    assert first is not None
    length = sum(p.numel() for p in parameters)
    stretch = first.as_strided((length,), (1,), first.storage_offset())
    work: dist.Work = dist.all_reduce(stretch, group=group, async_op=True)
    return work


def adam(parameters: list[nn.Parameter], state: list[torch.Tensor], rate: float) -> None:
    """Update the 32-bit copies and, from them, the weights; state holds three numbers each."""
    for parameter, (copy, mean, square) in zip(parameters, state, strict=True):
        assert parameter.grad is not None
        gradient = parameter.grad.reshape(-1)
        mean.lerp_(gradient.float(), 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        copy.addcdiv_(mean, square.sqrt().add_(1e-8), value=-rate)
        parameter.detach().copy_(copy.view_as(parameter))


def step(group: Any, sizes: dict[str, int], num_sequences: int, reduce: str) -> int:
    """One training step of one replica; returns the number of parameters.

    Args:
        group: all ranks; each is a replica.
        sizes: arguments of ``Gpt``.
        num_sequences: of this rank.
        reduce: ``"none"``; ``"once"``, one all-reduce after the backward pass; ``"layers"``, one
            for each layer behind the rest of the backward pass, and one for what is left.
    """
    torch.set_default_dtype(torch.bfloat16)
    model = Gpt(**sizes)
    parameters = list(model.parameters())
    flat = flat_gradients(parameters)
    state = [torch.zeros(3, p.numel(), dtype=torch.float32) for p in parameters]
    under_way = reduce_layers(model, group) if reduce == "layers" else []
    tokens = torch.zeros(num_sequences, sizes["sequence"], dtype=torch.long)
    with set_checkpoint_early_stop(False):
        model(tokens, tokens).backward()
    if reduce == "once":
        dist.all_reduce(flat, group=group)
    if reduce == "layers":
        rest = [model.words, model.positions, model.norm]
        under_way += [reduce_async(list(module.parameters()), group) for module in rest]
        for work in under_way:
            work.wait()
    flat /= group.size()
    adam(parameters, state, 1e-4)
    return len(flat)
