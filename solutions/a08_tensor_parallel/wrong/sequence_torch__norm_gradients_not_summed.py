# fails: test_gradients_of_replicated_parameters
"""finish does nothing: every rank has the gradients of its own positions."""

import torch
import torch.distributed as dist
from dropout import scaled_mask
from torch import nn
from torch.nn.functional import gelu, layer_norm, linear

def _gathered(x, group):
    whole = x.new_empty(dist.get_world_size(group) * x.shape[0], *x.shape[1:])
    dist.all_gather_into_tensor(whole, x.contiguous(), group=group)
    return whole

def _scattered_sum(x, group):
    own = x.new_empty(x.shape[0] // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_tensor(own, x.contiguous(), group=group)
    return own

class _Gather(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _gathered(x, group)

    @staticmethod
    def backward(ctx, grad):
        return (_scattered_sum(grad, ctx.group), None)

class _ReduceScatter(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return _scattered_sum(x, group)

    @staticmethod
    def backward(ctx, grad):
        return (_gathered(grad, ctx.group), None)

def gather_sequence(group, x):
    return _Gather.apply(x, group)

def reduce_scatter_sequence(group, x):
    return _ReduceScatter.apply(x, group)

class SequenceBlock(nn.Module):

    def __init__(self, group, params, rate=0.0):
        super().__init__()
        self.group, self.rate = (group, rate)
        self.p, self.r = (dist.get_world_size(group), dist.get_rank(group))
        cuts = {'w1': 0, 'b1': 0, 'w2': 1}
        for name, whole in params.items():
            own = whole.detach()
            if name in cuts:
                own = own.chunk(self.p, dim=cuts[name])[self.r]
            self.register_parameter(name, nn.Parameter(own.clone()))

    def forward(self, x, seed=0):
        t, d = x.shape
        y = layer_norm(x, (d,), self.norm_weight, self.norm_bias)
        y = gather_sequence(self.group, y)
        y = gelu(linear(y, self.w1, self.b1), approximate='tanh')
        y = reduce_scatter_sequence(self.group, linear(y, self.w2)) + self.b2
        if self.training and self.rate:
            y = y * x.new_tensor(scaled_mask(seed, self.r * t, t, d, self.rate))
        return x + y

    def finish(self):
        pass

