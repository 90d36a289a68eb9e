"""A GPT in parts for a grid of ranks, and its messages: supplied, nothing to write.

    stage 0        embed, layers           a layer on the tensor ranks t:
    stage 1        layers                  x = x + sum_t attention_t(norm1(x)) + attention_bias
    stage P - 1    layers, norm, loss      x = x + sum_t mlp_t(norm2(x)) + mlp_bias

A rank holds the parameters of its stage. Matrices are cut along the tensor axis, by heads and by
hidden units, and so is the table of words, which the first and the last stage share. Norms, biases
that are added after a sum, and positions are whole on each rank of the axis (``LAYER``).

``attention`` and ``mlp`` announce their passes with the layer's number. In tests of order the
network answers with factors that scale a pass's input; everywhere else they are 1.
"""

import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from given.gpt import LAYER
from torch import nn
from torch.nn import functional as F

import ringside

# -- axes and messages -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """The group of an axis that this rank is in.

    Attributes:
        ranks: its members, in their order, as ``torch.distributed`` numbers them (world ranks).
        rank: this rank's place among them, 0 to size - 1.
        group: their process group, for collectives. It may number them otherwise.
    """

    ranks: tuple[int, ...]
    rank: int
    group: dist.ProcessGroup

    @property
    def size(self):
        """How many members it has."""
        return len(self.ranks)

    @property
    def is_first(self):
        """Is this rank the first member?"""
        return self.rank == 0

    @property
    def is_last(self):
        """Is this rank the last member?"""
        return self.rank == self.size - 1


@dataclass(frozen=True)
class Grid:
    """This rank's axes: pipeline, data, tensor; and the ranks that share the table of words.

    ``ends`` holds the first and the last rank of the pipeline, or one rank where the pipeline has
    one. It is None on the stages between.
    """

    pp: Axis
    dp: Axis
    tp: Axis
    ends: Axis | None


def split(group: dist.ProcessGroup, lists: list[list[int]]) -> Axis:
    """Make a process group of each list, on all ranks in the same order; return this rank's.

    Args:
        group: the ranks of the grid. Each of them calls this, with the same lists.
        lists: lists of places in ``group``, as Python integers. A rank is in one list at most.

    Returns:
        An ``Axis``, or None where this rank is in no list.
    """
    own, mine = dist.get_rank(), None
    for places in lists:
        ranks = tuple(dist.get_global_rank(group, place) for place in places)
        made = dist.new_group(list(ranks))
        if own in ranks:
            mine = Axis(ranks, ranks.index(own), made)
    return mine


def ends_of(lists):
    """Of each list the first and the last rank; one rank where there is no other.

    >>> ends_of([[0, 2, 4], [1, 3, 5]]), ends_of([[7]])
    ([[0, 4], [1, 5]], [[7]])
    """
    return [sorted({each[0], each[-1]}) for each in lists]


class Messages:
    """Point-to-point messages along an axis."""

    def __init__(self, axis):
        self._axis, self._sent = axis, []

    def send(self, x, place):
        """Start to send a tensor to a place of the axis; don't change it before ``wait``."""
        x = x.detach().contiguous()
        work = dist.isend(x, self._axis.ranks[place], group=self._axis.group)
        self._sent.append((work, x))

    def receive(self, place, buffer):
        """Wait for a tensor from a place of the axis, and return it: it fills ``buffer``."""
        dist.recv(buffer, self._axis.ranks[place], group=self._axis.group)
        return buffer

    def wait(self):
        """Wait until all that was sent has left."""
        while self._sent:
            self._sent.pop(0)[0].wait()


class _SumOver(torch.autograd.Function):
    """An all-reduce in one of both passes."""

    @staticmethod
    def forward(ctx, x, axis, in_forward):
        ctx.axis, ctx.in_forward = axis, in_forward
        return _summed(x, axis) if in_forward else x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient if ctx.in_forward else _summed(gradient, ctx.axis), None, None


def _summed(x, axis):
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, group=axis.group)
    return x


def copy_to_axis(axis, x):
    """Operator f: x as it is; its gradient is the sum of the gradients of all ranks of the axis."""
    return _SumOver.apply(x, axis, False)


def reduce_from_axis(axis, x):
    """Operator g: the sum of x over all ranks of the axis; its gradient is passed on as it is."""
    return _SumOver.apply(x, axis, True)


# -- the model -------------------------------------------------------------------------------------


class _Announced(torch.autograd.Function):
    """Announces a forward pass at a piece's input, or a backward pass at its output."""

    @staticmethod
    def forward(ctx, x, layer, phase, in_forward):
        ctx.layer, ctx.phase, ctx.in_forward = layer, phase, in_forward
        return layer.begin(f"forward {phase}", x).view_as(x) if in_forward else x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        if not ctx.in_forward:
            gradient = ctx.layer.begin(f"backward {ctx.phase}", gradient)
        return gradient, None, None, None


class Layer(nn.Module):
    """One layer's pieces on a tensor rank. It has no ``forward``: ``run_layer`` is yours.

    Attributes:
        norm1, norm2: functions of x, whole on each tensor rank.
        attention, mlp: functions of a normed x; each returns this rank's *summand*, of x's shape.
        attention_bias, mlp_bias: shape ``(hidden,)``, added once to the sum over tensor ranks.
    """

    begin = staticmethod(ringside.announce)

    def __init__(self, number, config, parts):
        super().__init__()
        self.number, self.width = number, config.hidden // config.heads
        h, dtype = config.hidden, getattr(torch, config.dtype)
        self.norm1, self.norm2 = nn.LayerNorm(h, dtype=dtype), nn.LayerNorm(h, dtype=dtype)
        for name in LAYER:
            part = nn.Parameter(parts[f"layer{number}.{name}"])
            norm, _, own = name.partition(".")
            setattr(getattr(self, norm) if own else self, own or name, part)

    def attention(self, y):
        """This rank's heads and its rows of the output matrix; y: (B, T, hidden)."""
        b, t, _ = y.shape
        phase = f"attention {self.number}"
        y = _Announced.apply(y, self, phase, True)
        heads = F.linear(y, self.qkv.flatten(0, 1), self.qkv_bias.flatten())
        q, k, v = heads.view(b, t, 3, -1, self.width).permute(2, 0, 3, 1, 4)  # (B, heads/tp, T, d)
        scores = q @ k.mT / math.sqrt(self.width)
        later = torch.ones(t, t, dtype=torch.bool, device=y.device).triu(1)
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        y = (weights @ v).transpose(1, 2).flatten(2)  # (B, T, hidden/tp)
        return _Announced.apply(F.linear(y, self.out), self, phase, False)

    def mlp(self, y):
        """This rank's hidden units; y: (B, T, hidden)."""
        phase = f"mlp {self.number}"
        y = _Announced.apply(y, self, phase, True)
        y = F.gelu(F.linear(y, self.up, self.up_bias))  # (B, T, 4 hidden/tp)
        return _Announced.apply(F.linear(y, self.down), self, phase, False)


class Stage(nn.Module):
    """What a rank holds of the model.

    Args:
        config: sizes.
        grid: this rank's axes.
        parts: its parameters as tensors, by name (``names_of``), cut along the tensor axis.

    Attributes:
        layers: this stage's, in their order.
        words: this rank's part of the table of words, on the first and the last stage; else None.
    """

    def __init__(self, config, grid, parts):
        super().__init__()
        self.config, self.tp = config, grid.tp
        pp, tp = grid.pp, grid.tp
        if pp.size != len(config.layers) or config.heads % tp.size or config.vocabulary % tp.size:
            raise ValueError(
                f"{pp.size} stages and {tp.size} tensor ranks don't fit {config}: give layers of "
                "each stage, and as many heads and words as tensor ranks can share evenly."
            )
        first_layer = sum(config.layers[: pp.rank])
        numbers = range(first_layer, first_layer + config.layers[pp.rank])
        self.layers = nn.ModuleList(Layer(number, config, parts) for number in numbers)
        for name in ("words", "positions", "norm.weight", "norm.bias"):
            held = name in parts
            own = name.replace(".", "_")
            self.register_parameter(own, nn.Parameter(parts[name]) if held else None)

    def empty(self, sequences):
        """A tensor for activations of so many sequences: (sequences, T, hidden)."""
        some = next(self.parameters())
        return some.new_empty(sequences, self.config.sequence, self.config.hidden)

    def zero(self):
        """A zero of shape (), to which losses can be added."""
        return self.empty(0).sum()

    def _local(self, tokens):
        """Tokens counted from this rank's first word, and which of them are not its own."""
        local = tokens - self.tp.rank * len(self.words)
        foreign = (local < 0) | (local >= len(self.words))
        return local.masked_fill(foreign, 0), foreign

    def embed(self, tokens):
        """First stage: the input of layer 0, the same on all tensor ranks; tokens: (B, T)."""
        local, foreign = self._local(tokens)
        x = F.embedding(local, self.words).masked_fill(foreign.unsqueeze(-1), 0.0)
        return reduce_from_axis(self.tp, x) + self.positions

    def loss(self, x, targets):
        """Last stage: the cross-entropy, **summed** over the tokens of x, not their mean.

        x is the output of the last layer. The last norm and the product with ``words`` are made
        here, and so are all sums over the tensor axis: its ranks get the same number.
        """
        x = F.layer_norm(x, x.shape[-1:], self.norm_weight, self.norm_bias)
        logits = F.linear(copy_to_axis(self.tp, x), self.words)  # (B, T, words/tp)
        largest = logits.detach().amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.tp.group)
        logits = logits - largest.unsqueeze(-1)
        total = reduce_from_axis(self.tp, logits.exp().sum(-1))
        local, foreign = self._local(targets)
        right = logits.gather(-1, local.unsqueeze(-1)).squeeze(-1).masked_fill(foreign, 0.0)
        return (total.log() - reduce_from_axis(self.tp, right)).sum()

    def named_parts(self):
        """Parameters by their names in the whole model."""
        found = {}
        for name, value in self.named_parameters():
            words = name.split(".")
            if words[0] == "layers":
                number = self.layers[int(words[1])].number
                found[f"layer{number}.{'.'.join(words[2:])}"] = value
            else:
                found[name.replace("norm_", "norm.")] = value
        return found


@dataclass(frozen=True)
class Batch:
    """The sequences of this rank's replica, cut into microbatches.

    Attributes:
        sizes: sequences of each microbatch; the same on all ranks.
        tokens: on the first stage, a tensor of shape ``(size, T)`` for each microbatch; else None.
        targets: likewise on the last stage.
    """

    sizes: tuple[int, ...]
    tokens: list[torch.Tensor] | None = None
    targets: list[torch.Tensor] | None = None
