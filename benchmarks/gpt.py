"""A GPT's training step on tensor, pipeline and data groups, in plain torch.distributed.

    rank = (pp_rank * dp_size + dp_rank) * tp_size + tp_rank

    tensor groups     every linear layer is cut: columns, then rows, then an all_reduce; the
                      vocabulary is cut too (Shoeybi et al. 2019, "Megatron-LM", section 3)
    pipeline groups   each stage holds layers in a row and passes activations on, by the schedule
                      one_f_one_b: forward and backward alternate (Narayanan et al. 2021, section 2)
    data groups       every replica has its own sequences; gradients are averaged, in buckets

    stage 0   F0 F1 F2 F3 .  .  .  .  B0 F4 B1 F5 B2 ...        (4 stages)
    stage 1      F0 F1 F2 .  .  .  B0 F3 B1 F4 B2 F5 ...
    stage 2         F0 F1 .  .  B0 F2 B1 F3 B2 F4 ...
    stage 3            F0 B0 F1 B1 F2 B2 F3 B3 ...

The first and the last stage hold the same embedding; they add up its gradients.

The same file runs on simulated ranks, on gloo or NCCL by torchrun, and on fake tensors, where 512
ranks of 1.7 billion parameters take about a minute: `gpt_512.py`. Weights depend on the seed and
on the place in the model only, so every layout trains the same model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Config:
    """Sizes of the model, of the batch and of the layout."""

    num_layers: int = 24
    hidden: int = 2304
    num_heads: int = 24
    vocabulary: int = 51200
    sequence: int = 2048
    microbatch_size: int = 2
    num_microbatches: int = 16
    pp_size: int = 1
    dp_size: int = 1
    tp_size: int = 1
    learning_rate: float = 1e-3
    bucket_bytes: int = 100 << 20
    dtype: str = "float32"
    recompute: bool = False  # a layer's forward once more before its backward, its input kept

    def num_parameters(self) -> int:
        """Of the whole model: embeddings, layers, the last norm."""
        h = self.hidden
        layer = 12 * h * h + 13 * h
        return self.num_layers * layer + (self.vocabulary + self.sequence) * h + 2 * h


@dataclass(frozen=True)
class Layout:
    """This rank's place, and its groups."""

    pp_rank: int
    dp_rank: int
    tp_rank: int
    tp: dist.ProcessGroup
    pp: dist.ProcessGroup
    dp: dist.ProcessGroup
    ends: dist.ProcessGroup | None  # first and last stage, which share the embedding


def make_layout(config: Config, rank: int) -> Layout:
    """Make all groups, in the same order on every rank; return this rank's."""
    pp_size, dp_size, tp_size = config.pp_size, config.dp_size, config.tp_size
    if dist.get_world_size() != pp_size * dp_size * tp_size:
        raise ValueError(
            f"world_size ({dist.get_world_size()}) must equal pp_size * dp_size * tp_size "
            f"({pp_size} * {dp_size} * {tp_size})."
        )

    def mine(rows: list[list[int]]) -> dist.ProcessGroup | None:
        groups = [(row, dist.new_group(row)) for row in rows]
        return next((group for row, group in groups if rank in row), None)

    ranks = [[[(p * dp_size + d) * tp_size + t for t in range(tp_size)] for d in range(dp_size)]
             for p in range(pp_size)]  # fmt: skip
    by_tp = [ranks[p][d] for p in range(pp_size) for d in range(dp_size)]
    by_dp = [
        [ranks[p][d][t] for d in range(dp_size)] for p in range(pp_size) for t in range(tp_size)
    ]
    by_pp = [
        [ranks[p][d][t] for p in range(pp_size)] for d in range(dp_size) for t in range(tp_size)
    ]
    tp, dp, pp = mine(by_tp), mine(by_dp), mine(by_pp)
    ends = mine([[row[0], row[-1]] for row in by_pp]) if pp_size > 1 else None
    place, tp_rank = divmod(rank, tp_size)
    pp_rank, dp_rank = divmod(place, dp_size)
    return Layout(pp_rank, dp_rank, tp_rank, tp, pp, dp, ends)


# -- tensor parallelism ----------------------------------------------------------------------------


class _Copy(torch.autograd.Function):
    """Forward nothing, backward an all_reduce: where a cut layer takes the whole input."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        if ctx.group.size() > 1:
            dist.all_reduce(gradient, group=ctx.group)
        return gradient, None


class _Reduce(torch.autograd.Function):
    """Forward an all_reduce, backward nothing: where the parts' results are added."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.contiguous()
        if group.size() > 1:
            dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def drawn(shape, seed, dtype, scale=0.02):
    """A parameter's initial value: the same in every layout."""
    generator = torch.Generator().manual_seed(seed)
    return torch.empty(shape, dtype=dtype).normal_(0.0, scale, generator=generator)


def part(whole, dim, layout, config):
    """This rank's part of a parameter, as a parameter."""
    piece = whole.chunk(config.tp_size, dim)[layout.tp_rank]
    return nn.Parameter(piece.clone(memory_format=torch.contiguous_format))


class Layer(nn.Module):
    """Attention and MLP, each cut by columns and then by rows."""

    def __init__(self, number: int, config: Config, layout: Layout):
        super().__init__()
        h, dtype, seed = config.hidden, DTYPES[config.dtype], 1000 * (number + 1)
        self.config, self.tp = config, layout.tp
        self.norm1, self.norm2 = (nn.LayerNorm(h, dtype=dtype) for _ in range(2))
        # Three matrices in a row, each cut by heads.
        self.qkv = nn.ParameterList(
            part(drawn((h, h), seed + i, dtype), 0, layout, config) for i in range(3)
        )
        self.qkv_bias = nn.ParameterList(
            part(torch.zeros(h, dtype=dtype), 0, layout, config) for _ in range(3)
        )
        self.out = part(drawn((h, h), seed + 3, dtype), 1, layout, config)
        self.out_bias = nn.Parameter(torch.zeros(h, dtype=dtype))
        self.up = part(drawn((4 * h, h), seed + 4, dtype), 0, layout, config)
        self.up_bias = part(torch.zeros(4 * h, dtype=dtype), 0, layout, config)
        self.down = part(drawn((h, 4 * h), seed + 5, dtype), 1, layout, config)
        self.down_bias = nn.Parameter(torch.zeros(h, dtype=dtype))

    def forward(self, x):  # (B, T, C)
        return self.mlp(self.attention(x))

    def attention(self, x):
        b, t, c = x.shape
        heads = self.config.num_heads
        y = _Copy.apply(self.norm1(x), self.tp)
        q, k, v = (
            F.linear(y, w, bias).view(b, t, -1, c // heads).transpose(1, 2)
            for w, bias in zip(self.qkv, self.qkv_bias, strict=True)
        )  # (B, heads/tp, T, C/heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).reshape(b, t, -1)  # (B, T, C/tp)
        return x + _Reduce.apply(F.linear(y, self.out), self.tp) + self.out_bias

    def mlp(self, x):
        y = _Copy.apply(self.norm2(x), self.tp)
        y = F.gelu(F.linear(y, self.up, self.up_bias))  # (B, T, 4C/tp)
        return x + _Reduce.apply(F.linear(y, self.down), self.tp) + self.down_bias


class Embedding(nn.Module):
    """Words, cut by the vocabulary, and positions; the words serve as the last layer too."""

    def __init__(self, config: Config, layout: Layout, *, positions: bool):
        super().__init__()
        dtype = DTYPES[config.dtype]
        self.tp, self.first = layout.tp, layout.tp_rank * (config.vocabulary // config.tp_size)
        self.words = part(drawn((config.vocabulary, config.hidden), 1, dtype), 0, layout, config)
        if positions:
            self.positions = nn.Parameter(drawn((config.sequence, config.hidden), 2, dtype))

    def local(self, tokens):
        """Tokens counted from this rank's first word, and which of them aren't its own."""
        local = tokens - self.first
        foreign = (local < 0) | (local >= self.words.shape[0])
        return local.masked_fill(foreign, 0), foreign

    def forward(self, tokens):  # (B, T)
        local, foreign = self.local(tokens)
        x = F.embedding(local, self.words).masked_fill(foreign.unsqueeze(-1), 0.0)
        return _Reduce.apply(x, self.tp) + self.positions  # (B, T, C)

    def loss(self, x, targets):
        """Mean cross-entropy; no rank has all words' logits."""
        logits = F.linear(_Copy.apply(x, self.tp), self.words)  # (B, T, V/tp)
        largest = logits.detach().amax(-1)
        if self.tp.size() > 1:
            dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=self.tp)
        logits = logits - largest.unsqueeze(-1)
        total = _Reduce.apply(logits.exp().sum(-1), self.tp)
        local, foreign = self.local(targets)
        right = logits.gather(-1, local.unsqueeze(-1)).squeeze(-1).masked_fill(foreign, 0.0)
        return (total.log() - _Reduce.apply(right, self.tp)).mean()


class Stage(nn.Module):
    """The layers of one pipeline stage, with the embedding at both ends."""

    def __init__(self, config: Config, layout: Layout):
        super().__init__()
        self.is_first = layout.pp_rank == 0
        self.is_last = layout.pp_rank == config.pp_size - 1
        self.recompute = config.recompute
        if config.num_layers % config.pp_size:
            raise ValueError(
                f"num_layers ({config.num_layers}) must be a multiple of pp_size "
                f"({config.pp_size})."
            )
        each = config.num_layers // config.pp_size
        numbers = range(layout.pp_rank * each, (layout.pp_rank + 1) * each)
        if self.is_first or self.is_last:
            self.embedding = Embedding(config, layout, positions=self.is_first)
        self.layers = nn.ModuleList(Layer(number, config, layout) for number in numbers)
        if self.is_last:
            self.norm = nn.LayerNorm(config.hidden, dtype=DTYPES[config.dtype])

    def forward(self, x, targets):
        """Activations or tokens in; activations or the loss out."""
        if self.is_first:
            x = self.embedding(x)
        for layer in self.layers:
            if self.recompute:
                x = checkpoint(layer, x, use_reentrant=True, preserve_rng_state=False)
            else:
                x = layer(x)
        return self.embedding.loss(self.norm(x), targets) if self.is_last else x


# -- pipeline parallelism --------------------------------------------------------------------------


@dataclass(frozen=True)
class Forward:
    microbatch: int


@dataclass(frozen=True)
class Backward:
    microbatch: int


def one_f_one_b(stage: int, num_stages: int, num_microbatches: int) -> Iterator[Forward | Backward]:
    """One forward, one backward, after a warm-up that fills the stages behind."""
    warm_up = min(num_stages - 1 - stage, num_microbatches)
    yield from (Forward(i) for i in range(warm_up))
    for i in range(num_microbatches - warm_up):
        yield Forward(warm_up + i)
        yield Backward(i)
    yield from (Backward(i) for i in range(num_microbatches - warm_up, num_microbatches))


class Pipeline:
    """Runs a schedule: takes activations from the stage before, gives them to the one after."""

    def __init__(self, config: Config, layout: Layout, stage: Stage):
        self.config, self.layout, self.stage = config, layout, stage
        ranks = dist.get_process_group_ranks(layout.pp)
        at = layout.pp_rank
        self.before = ranks[at - 1] if at > 0 else -1
        self.after = ranks[at + 1] if at + 1 < len(ranks) else -1
        self.sending: list[tuple[dist.Work, torch.Tensor]] = []
        self.held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.losses: list[torch.Tensor] = []

    def run(self, tokens, targets):
        """Forward and backward of all microbatches; tokens and targets: (M, B, T)."""
        config = self.config
        for action in one_f_one_b(self.layout.pp_rank, config.pp_size, config.num_microbatches):
            i = action.microbatch
            if isinstance(action, Forward):
                self.forward(i, tokens[i], targets[i])
            else:
                self.backward(i)
        # Nobody waits for its sends before: what a neighbour receives later can't block it now.
        for work, _ in self.sending:
            work.wait()
        self.sending.clear()
        return torch.stack(self.losses).sum() if self.losses else None

    def forward(self, i, tokens, targets):
        x = tokens if self.before < 0 else self.receive(self.before).requires_grad_()
        y = self.stage(x, targets)
        if self.after < 0:
            y = y / self.config.num_microbatches
            self.losses.append(y.detach())
        else:
            self.send(y.detach(), self.after)
        self.held[i] = x, y

    def backward(self, i):
        x, y = self.held.pop(i)
        y.backward(None if self.after < 0 else self.receive(self.after))
        if self.before >= 0:
            self.send(x.grad, self.before)

    def receive(self, source):
        config = self.config
        shape = (config.microbatch_size, config.sequence, config.hidden)
        x = torch.empty(shape, dtype=DTYPES[config.dtype])
        dist.recv(x, source, group=self.layout.pp)
        return x

    def send(self, x, dest):
        self.sending.append((dist.isend(x, dest, group=self.layout.pp), x))


# -- data parallelism ------------------------------------------------------------------------------


def average_gradients(parameters, config: Config, layout: Layout):
    """Average over replicas, bucket by bucket."""
    if config.dp_size == 1:
        return
    bucket: list[torch.Tensor] = []
    gradients = [parameter.grad for parameter in parameters]
    for number, gradient in enumerate(gradients):
        bucket.append(gradient)
        full = sum(g.nbytes for g in bucket) >= config.bucket_bytes
        if full or number == len(gradients) - 1:
            sizes = [g.numel() for g in bucket]
            padding = -sum(sizes) % config.dp_size  # every rank's share of a ring has one size
            flat = torch.cat([*(g.reshape(-1) for g in bucket), bucket[0].new_zeros(padding)])
            dist.all_reduce(flat, group=layout.dp)
            flat /= config.dp_size
            for g, values in zip(bucket, flat.split([*sizes, padding]), strict=False):
                g.copy_(values.view_as(g))
            bucket = []


# -- a step ----------------------------------------------------------------------------------------


def batch(config: Config, dp_rank: int):
    """Tokens and the words that follow them: (M, B, T) each; the same for every layout."""
    generator = torch.Generator().manual_seed(7)
    shape = (config.dp_size, config.num_microbatches, config.microbatch_size, config.sequence + 1)
    words = torch.randint(config.vocabulary, shape, generator=generator)[dp_rank]
    return words[..., :-1].contiguous(), words[..., 1:].contiguous()


def step(group, settings):
    """One training step; returns the loss (last stage) and the updated parameters by name.

    Args:
        group: all ranks, ``pp_size * dp_size * tp_size`` of them.
        settings: fields of ``Config`` by name.
    """
    config = Config(**{f.name: settings[f.name] for f in fields(Config) if f.name in settings})
    layout = make_layout(config, group.rank())
    stage = Stage(config, layout)
    tokens, targets = batch(config, layout.dp_rank)
    loss = Pipeline(config, layout, stage).run(tokens, targets)
    if layout.ends is not None and (stage.is_first or stage.is_last):
        dist.all_reduce(stage.embedding.words.grad, group=layout.ends)
    parameters = list(stage.parameters())
    average_gradients(parameters, config, layout)
    torch.optim.SGD(parameters, lr=config.learning_rate, momentum=0.9, foreach=False).step()
    return loss, dict(stage.named_parameters())
