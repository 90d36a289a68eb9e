"""Functions made for each group, objects that are called, layers that are torch's own."""

from functools import cache, partial

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Function


@cache
def conjugates(group):
    """f and g of a group."""

    def total(x):
        x = torch.empty_like(x, memory_format=torch.contiguous_format).copy_(x)
        dist.all_reduce(x, op=dist.ReduceOp.SUM, group=group)
        return x

    def same(x):
        return x.view(x.shape)

    def made(there, back):
        class Operator(Function):
            @staticmethod
            def forward(ctx, x):
                return there(x)

            @staticmethod
            def backward(ctx, grad):
                return back(grad)

        return Operator.apply

    return made(same, total), made(total, same)


class Region:
    def __init__(self, which):
        self.which = which

    def __call__(self, group, x):
        return conjugates(group)[self.which](x)


copy_to_group, reduce_from_group = map(Region, range(2))


class ColumnLinear(nn.Linear):
    def __init__(self, group, weight, bias=None):
        mine = torch.tensor_split(weight, group.size())[group.rank()]
        super().__init__(weight.shape[1], max(len(mine), 1), bias is not None, dtype=weight.dtype)
        self.enter = partial(copy_to_group, group)
        self.weight = nn.Parameter(mine.detach().clone())
        if bias is not None:
            self.bias = nn.Parameter(bias.tensor_split(group.size())[group.rank()].detach().clone())

    def forward(self, x):
        return super().forward(self.enter(x))


class RowLinear(nn.Module):
    def __init__(self, group, weight, bias=None):
        super().__init__()
        self.leave = partial(reduce_from_group, group)
        mine = weight.tensor_split(group.size(), dim=-1)[group.rank()]
        self.weight = nn.Parameter(mine.detach().contiguous().clone())
        self.bias = None if bias is None else nn.Parameter(bias.clone())

    def forward(self, x):
        y = self.leave(x @ self.weight.t())
        return y + self.bias if self.bias is not None else y

