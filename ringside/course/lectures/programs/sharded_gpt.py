"""The course's GPT with its states in shards: each layer is gathered, used and freed.

    forward     layer 0, gather 1 | layer 1, gather 2 | ...
    backward    last layer again, its gradients, gather the one before it | reduce-scatter, ...
    update      Adam, on this rank's shard of the weights in 32 bits

    words, positions and the last norm: gathered first, kept, reduce-scattered last

Traced on fake tensors by lecture 7 for the ledger: the work, the traffic and the memory are those
of a step. For a parameter a rank keeps 16 / p bytes. Since all layers have one shape, the program
is a loop over their shards. ``prefetch=False`` gathers a layer only when it is needed, and waits
for each reduce-scatter.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from ringside.course.lectures import course_gpt as gpt


class Shards:
    """This rank's part of some modules of one shape: weights, gradients, and Adam's state."""

    def __init__(self, shapes: dict[str, torch.Size], number: int, group: Any) -> None:
        self.shapes, self.group = shapes, group
        self.length = math.ceil(sum(map(math.prod, shapes.values())) / group.size())
        self.weights = [nn.Parameter(torch.zeros(self.length)) for _ in range(number)]
        self.state = [torch.zeros(3, self.length, dtype=torch.float32) for _ in range(number)]

    def gather(self, number: int) -> tuple[torch.Tensor, dist.Work]:
        """Start to gather a module's weights, flat, into new memory."""
        whole = torch.empty(self.length * self.group.size())
        shard = self.weights[number].detach()
        return whole, dist.all_gather_into_tensor(whole, shard, group=self.group, async_op=True)

    def reduce(self, number: int, flat: torch.Tensor) -> dist.Work:
        """Start to sum a module's gradients over all ranks into this rank's shard."""
        shard = torch.empty(self.length)
        self.weights[number].grad = shard
        work: dist.Work = dist.reduce_scatter_tensor(shard, flat, group=self.group, async_op=True)
        return work

    def views(self, whole: torch.Tensor) -> dict[str, torch.Tensor]:
        """A module's parameters by name, as views of the flat weights."""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        pieces = torch.split(whole[: sum(sizes)], sizes)
        pairs = zip(self.shapes.items(), pieces, strict=True)
        return {name: piece.view(shape) for (name, shape), piece in pairs}

    def update(self) -> None:
        """One step of Adam on this rank's part."""
        for weights in self.weights:
            assert weights.grad is not None
            weights.grad /= self.group.size()
        gpt.adam(self.weights, self.state, 1e-4)


def shapes_of(module: nn.Module) -> dict[str, torch.Size]:
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def scores(x: torch.Tensor, outside: dict[str, torch.Tensor], targets: torch.Tensor) -> Any:
    """The last norm and the mean loss, for one sequence at a time."""
    x = F.layer_norm(x, x.shape[-1:], outside["norm.weight"], outside["norm.bias"])
    table = outside["words.weight"]
    return torch.stack([gpt.again(gpt.loss, x[i], table, targets[i]) for i in range(len(x))]).mean()


def step(group: Any, sizes: dict[str, int], num_sequences: int, prefetch: bool = True) -> int:
    """One training step; returns the number of parameters that this rank keeps.

    Args:
        group: all ranks.
        sizes: as for ``course_gpt.Gpt``.
        num_sequences: of this rank.
        prefetch: gather a layer behind the one before it, and don't wait for reduce-scatters.
    """
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("meta"):  # shapes alone
        layer = gpt.Layer(sizes["width"], sizes["num_heads"])
        shapes = shapes_of(gpt.Gpt(**{**sizes, "num_layers": 0}))
    last = sizes["num_layers"] - 1
    layers, rest = Shards(shapes_of(layer), last + 1, group), Shards(shapes, 1, group)
    tokens = torch.zeros(num_sequences, sizes["sequence"], dtype=torch.long)
    under_way: dict[int, tuple[torch.Tensor, dist.Work]] = {}

    def gathered(number: int, following: int) -> torch.Tensor:
        """A layer's weights; starts to gather those of the layer that is needed next."""
        if number not in under_way:
            under_way[number] = layers.gather(number)
        whole, work = under_way.pop(number)
        work.wait()
        if prefetch and 0 <= following <= last:
            under_way[following] = layers.gather(following)
        return whole

    whole, work = rest.gather(0)
    work.wait()
    outside = rest.views(whole.requires_grad_())
    first = F.embedding(tokens, outside["words.weight"]) + outside["positions.weight"]
    inputs = [first.detach()]
    with torch.no_grad():
        for number in range(last + 1):
            weights = gathered(number, number + 1)
            inputs.append(functional_call(layer, layers.views(weights), (inputs[-1],)))
    output = inputs.pop().requires_grad_()
    torch.autograd.backward(scores(output, outside, tokens))
    gradient = output.grad
    del output

    reduced: list[dist.Work] = []
    for number in range(last, -1, -1):
        if number < last:  # the last layer's weights are still here
            weights = gathered(number, number - 1)
        elif prefetch:
            under_way[last - 1] = layers.gather(last - 1)
        leaf, x = weights.detach().requires_grad_(), inputs.pop().requires_grad_()
        y = functional_call(layer, layers.views(leaf), (x,))
        gradient, flat = torch.autograd.grad(y, (x, leaf), gradient)
        del y, x
        if reduced:
            reduced.pop().wait()  # so that at most two layers' gradients are here
        reduced.append(layers.reduce(number, flat))
        if not prefetch:
            reduced.pop().wait()
    torch.autograd.backward(first, gradient)
    assert whole.grad is not None
    reduced.append(rest.reduce(0, whole.grad))
    for work in reduced:
        work.wait()
    layers.update()
    rest.update()
    return sum(shard.numel() for shard in [*layers.weights, *rest.weights])
