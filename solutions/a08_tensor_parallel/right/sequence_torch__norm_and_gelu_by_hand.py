"""Norm and gelu in their formulas; modules inside; a dictionary of parts."""

import math

import torch
import torch.distributed as dist
from dropout import scaled_mask
from torch import nn


def gather_sequence(group, x):
    return _Move.apply(x, group, True)


def reduce_scatter_sequence(group, x):
    return _Move.apply(x, group, False)


class _Move(torch.autograd.Function):
    """Both operators: each is the other's backward pass."""

    @staticmethod
    def forward(ctx, x, group, gathers):
        ctx.back = group, not gathers
        return _move(x, group, gathers)

    @staticmethod
    def backward(ctx, grad):
        return _move(grad, *ctx.back), None, None


def _move(x, group, gathers):
    p, rows = group.size(), x.shape[0]
    moved = torch.empty((rows * p if gathers else rows // p, *x.shape[1:]), dtype=x.dtype)
    if gathers:
        dist.all_gather_single(moved, x.contiguous(), group=group) if hasattr(
            dist, "all_gather_single"
        ) else dist.all_gather_into_tensor(moved, x.contiguous(), group=group)
    else:
        dist.reduce_scatter_tensor(moved, x.contiguous(), group=group)
    return moved


class SequenceBlock(nn.Module):
    def __init__(self, group, params, rate=0.0):
        super().__init__()
        self.group, self.rate = group, rate
        share = len(params["b1"]) // group.size()
        mine = slice(group.rank() * share, (group.rank() + 1) * share)
        parts = {
            **params,
            "w1": params["w1"][mine],
            "b1": params["b1"][mine],
            "w2": params["w2"][:, mine],
        }
        for name, value in parts.items():
            setattr(self, name, nn.Parameter(torch.empty_like(value).copy_(value).contiguous()))

    def norm(self, x):
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return centred * scale * self.norm_weight + self.norm_bias

    def forward(self, x, seed=0):
        h = gather_sequence(self.group, self.norm(x)) @ self.w1.t() + self.b1
        h = h * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (h + 0.044715 * h * h * h))
        y = reduce_scatter_sequence(self.group, h @ self.w2.t()) + self.b2
        if self.training:
            first = self.group.rank() * len(x)
            mask = scaled_mask(seed, first, *x.shape, self.rate)
            y = y * torch.from_numpy(mask).to(x.dtype)
        return x + y

    def finish(self):
        works = [
            dist.all_reduce(param.grad, group=self.group, async_op=True)
            for param in (self.norm_weight, self.norm_bias, self.b2)
        ]
        for work in works:
            work.wait()

