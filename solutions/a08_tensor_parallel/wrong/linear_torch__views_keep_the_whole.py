# fails: test_a_layer_keeps_its_parts
"""Parts are views: the whole weights stay in memory."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import linear

def _all_reduced(x, group):
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total

class _Copy(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return (_all_reduced(grad, ctx.group), None)

class _Reduce(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, group):
        return _all_reduced(x, group)

    @staticmethod
    def backward(ctx, grad):
        return (grad, None)

def copy_to_group(group, x):
    return _Copy.apply(x, group)

def reduce_from_group(group, x):
    return _Reduce.apply(x, group)

class ColumnLinear(nn.Module):

    def __init__(self, group, weight, bias=None):
        super().__init__()
        self.group = group
        p, r = (dist.get_world_size(group), dist.get_rank(group))
        self.weight = nn.Parameter(weight.detach().tensor_split(p)[r])
        self.bias = None if bias is None else nn.Parameter(bias.detach().tensor_split(p)[r])

    def forward(self, x):
        return linear(copy_to_group(self.group, x), self.weight, self.bias)

class RowLinear(nn.Module):

    def __init__(self, group, weight, bias=None):
        super().__init__()
        self.group = group
        p, r = (dist.get_world_size(group), dist.get_rank(group))
        self.weight = nn.Parameter(weight.detach().tensor_split(p, dim=1)[r])
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x):
        y = reduce_from_group(self.group, linear(x, self.weight))
        return y if self.bias is None else y + self.bias
