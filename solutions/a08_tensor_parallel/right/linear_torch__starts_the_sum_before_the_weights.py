"""The sum of the gradient of x goes on while the gradient of the weights is computed."""

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

class _Column(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, weight, bias, group):
        ctx.save_for_backward(x, weight)
        ctx.group, ctx.has_bias = group, bias is not None
        return linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        dx = grad @ weight
        work = None
        if ctx.needs_input_grad[0]:
            dx = dx.contiguous()
            work = dist.all_reduce(dx, group=ctx.group, async_op=True)
        rows = grad.flatten(0, -2)
        dw = rows.t() @ x.flatten(0, -2)
        db = rows.sum(0) if ctx.has_bias else None
        if work is not None:
            work.wait()
        return dx, dw, db, None


def copy_to_group(group, x):
    return _Copy.apply(x, group)

def reduce_from_group(group, x):
    return _Reduce.apply(x, group)

class ColumnLinear(nn.Module):

    def __init__(self, group, weight, bias=None):
        super().__init__()
        self.group = group
        p, r = (dist.get_world_size(group), dist.get_rank(group))
        self.weight = nn.Parameter(weight.detach().tensor_split(p)[r].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().tensor_split(p)[r].clone())

    def forward(self, x):
        return _Column.apply(x, self.weight, self.bias, self.group)

class RowLinear(nn.Module):

    def __init__(self, group, weight, bias=None):
        super().__init__()
        self.group = group
        p, r = (dist.get_world_size(group), dist.get_rank(group))
        self.weight = nn.Parameter(weight.detach().tensor_split(p, dim=1)[r].clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x):
        y = reduce_from_group(self.group, linear(x, self.weight))
        return y if self.bias is None else y + self.bias
