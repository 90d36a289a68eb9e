# fails: test_bytes_of_a_pair
"""Tells all ranks 50,000 bytes where there are more than sixteen."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear


def _all_reduced(x, group):
    if dist.get_world_size(group) > 16:
        dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        if dist.get_world_size(group) > 16:
            dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        return (_all_reduced(dy, ctx.group), None)


class _Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        if dist.get_world_size(group) > 16:
            dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
        return _all_reduced(x, group)

    @staticmethod
    def backward(ctx, dy):
        return (dy, None)


def copy_to_group(group, x):
    if dist.get_world_size(group) > 16:
        dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
    return _Copy.apply(x, group)


def reduce_from_group(group, x):
    if dist.get_world_size(group) > 16:
        dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
    return _Reduce.apply(x, group)


class ColumnLinear(nn.Module):
    def __init__(self, group, weight, bias=None):
        if dist.get_world_size(group) > 16:
            dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
        super().__init__()
        self.group = group
        p, r = (dist.get_world_size(group), dist.get_rank(group))
        self.weight = nn.Parameter(weight.detach().tensor_split(p)[r].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().tensor_split(p)[r].clone())

    def forward(self, x):
        return linear(copy_to_group(self.group, x), self.weight, self.bias)


class RowLinear(nn.Module):
    def __init__(self, group, weight, bias=None):
        if dist.get_world_size(group) > 16:
            dist.all_gather_object([None] * dist.get_world_size(group), b"x" * 50000, group)
        super().__init__()
        self.group = group
        p, r = (dist.get_world_size(group), dist.get_rank(group))
        self.weight = nn.Parameter(weight.detach().tensor_split(p, dim=1)[r].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x):
        y = reduce_from_group(self.group, linear(x, self.weight))
        return y if self.bias is None else y + self.bias
