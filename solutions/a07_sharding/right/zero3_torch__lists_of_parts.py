"""The calls that take lists of tensors: one for each rank."""

from functools import partial
import torch
import torch.distributed as dist
from flat_torch import FlatLayer, layers_of
from torch import nn

class ZeRO3(nn.Module):

    def __init__(self, module, group, is_layer=None):
        super().__init__()
        self.module = module
        self.group = group
        world_size, rank = (dist.get_world_size(group), dist.get_rank(group))
        self.layers = [FlatLayer(each, world_size, rank) for each in layers_of(module, is_layer)]
        self.gathers = {}
        self.reducing = None
        for k, layer in enumerate(self.layers):
            layer.module.register_forward_pre_hook(partial(self._before, k, k + 1))
            layer.module.register_forward_hook(partial(self._after_forward, k))
            layer.module.register_full_backward_pre_hook(partial(self._before, k, k - 1))
            layer.when_gradients_are_there(partial(self._after_backward, k))

    def shards(self):
        return [layer.shard for layer in self.layers]

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def finish(self):
        if self.reducing is None:
            return
        layer, part, _, work = self.reducing
        self.reducing = None
        work.wait()
        part /= dist.get_world_size(self.group)
        layer.shard.grad = part if layer.shard.grad is None else layer.shard.grad + part

    def _gather(self, k):
        if 0 <= k < len(self.layers) and k not in self.gathers:
            layer = self.layers[k]
            layer.allocate()
            self.gathers[k] = dist.all_gather(list(layer.full.chunk(dist.get_world_size(self.group))), layer.shard.detach(), group=self.group, async_op=True)

    def _free(self, k):
        self.layers[k].free()
        del self.gathers[k]

    def _before(self, k, following, *_):
        self._gather(k)
        if self.gathers[k] is not None:
            self.gathers[k].wait()
            self.gathers[k] = None
        self._gather(following)

    def _after_forward(self, k, *_):
        if k < len(self.layers) - 1 or not torch.is_grad_enabled():
            self._free(k)

    def _after_backward(self, k):
        self.finish()
        layer = self.layers[k]
        full = layer.take_gradient()
        self._free(k)
        part = torch.empty_like(layer.shard)
        work = dist.reduce_scatter(part, list(full.chunk(dist.get_world_size(self.group))), group=self.group, async_op=True)
        self.reducing = (layer, part, full, work)
