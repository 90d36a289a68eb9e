"""torch's own differentiable all-gather and reduce-scatter."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dist_nn
from dropout import scaled_mask
from torch import nn
from torch.nn.functional import gelu, layer_norm, linear

def gather_sequence(group, x):
    y = torch.cat(dist_nn.all_gather(x.contiguous(), group=group))
    if y.requires_grad:
        y.register_hook(lambda grad: grad.contiguous())  # all_gather's own backward pass needs it
    return y

def reduce_scatter_sequence(group, x):
    parts = [part.contiguous() for part in x.chunk(dist.get_world_size(group))]
    return dist_nn.reduce_scatter(torch.empty_like(parts[0]), parts, group=group)

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
        grads = [each.grad for each in (self.norm_weight, self.norm_bias, self.b2)]
        flat = torch.cat(grads)
        dist.all_reduce(flat, group=self.group)
        for grad, total in zip(grads, flat.chunk(3), strict=True):
            grad.copy_(total)
