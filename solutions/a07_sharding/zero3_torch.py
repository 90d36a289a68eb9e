"""ZeRO stage 3: each rank keeps a shard of every layer, and borrows the rest while it computes.

    layers            0       1       2       3                one flat tensor each, padded
    rank 0 keeps      [==  ]  [==  ]  [==  ]  [==  ]           shard 0 of every layer
    rank 1 keeps      [  ==]  [  ==]  [  ==]  [  ==]           shard 1 of every layer

    forward    gather 0  gather 1   gather 2      gather 3
                         compute 0  compute 1     compute 2     compute 3
                                    free 0        free 1        free 2        3 is kept
    backward   gather 2   reduce 3   gather 1     reduce 2      gather 0      reduce 1
               compute 3             compute 2                  compute 1       ...
                          free 3                  free 2                      free 1

A gather is an all-gather of a layer's shards. A reduce is a reduce-scatter of its gradients: each
rank gets the sum over all ranks of its own part, and nobody keeps the rest.

How to write it. ``FlatLayer`` (given/layers_torch.py) does the bookkeeping; you write what moves
when.

1. In the constructor make a ``FlatLayer`` of each of ``layers_of(module, is_layer)``.
2. Write one method that starts to gather layer k, unless that has been done: ``allocate()``, then
   ``dist.all_gather_into_tensor(full, shard, ..., async_op=True)``. Keep the work.
3. Before layer k computes forward (``module.register_forward_pre_hook``): see that layer k is on
   its way, wait for it, and then start to gather layer k + 1. Before it computes backward
   (``module.register_full_backward_pre_hook``): the same with layer k - 1.
4. After its forward pass (``register_forward_hook``) free layer k. The last layer is needed again
   at once, so you may keep it, unless no backward pass will follow (``torch.is_grad_enabled()``).
5. When all of its gradients are there (``when_gradients_are_there``): take the flat gradient, free
   the layer, and start ``dist.reduce_scatter_tensor(..., async_op=True)``. Wait for the
   reduce-scatter of the layer before it first, so that only one is under way.
6. ``finish()`` waits for the last one. Where a reduce-scatter has ended, divide by p, and add the
   result to the shard's ``grad``.

Rules:

- Only all-gathers and reduce-scatters on ``group`` may be called, and none in the constructor.
- The layers run in their order, each once in a forward pass. Every parameter gets a gradient in
  each backward pass. A layer may have fewer elements than p.
- When the module is given, only shard r of each layer holds right numbers on rank r. The rest is
  arbitrary.
- A forward pass under ``torch.no_grad()`` (an evaluation) may come after any ``finish``, before or
  after the optimizer's step. It leaves nothing behind: no layer is kept, and the next pass uses the
  parameters as they are then.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.distributed as dist
from given.layers_torch import FlatLayer, layers_of
from torch import nn


class ZeRO3(nn.Module):
    """Shards a module's parameters and gradients over the ranks of a group.

    Args:
        module: the network.
        group: the p ranks that take part.
        is_layer: a function of a submodule that says whether it is sharded as one layer; None: the
            module's children are. ``layers_of`` finds them.

    - Bytes: in one step a rank sends, and receives, at most 3 (p - 1) / p of all parameters' bytes,
      each layer padded to a multiple of p elements. Example: 8 layers of 1000 elements in float32
      on 4 ranks are 32,000 bytes, so a rank may send 72,000.
    - Schedule: when layer k begins its forward pass, layer k + 1 is being gathered and no later
      one; when it begins its backward pass, the same of layer k - 1. The reduce-scatter of layer k
      is launched before the backward pass of layer k - 1 begins.
    - Memory, at any time: (1) shards and their gradients, (2) the parameters of two layers, (3) the
      gradients of three layers. Example: 12 equal layers on 4 ranks; shards and gradients together
      are as large as 6 layers, and the rank holds at most 11 instead of 24.
    - Time on 8 to 64 ranks: at most 1.05 times that of the schedule above, where one collective is
      under way at a time and the last layer is gathered again for its backward pass; half the
      points up to 1.3 times.

    Source: Rajbhandari et al., ZeRO, SC 2020, section 5.3; Zhao et al., PyTorch FSDP, VLDB 2023.
    """

    def __init__(
        self, module: nn.Module, group: dist.ProcessGroup, is_layer: Callable | None = None
    ):
        super().__init__()
        self.module = module
        ### BEGIN SOLUTION
        self.group = group
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        self.layers = [FlatLayer(each, world_size, rank) for each in layers_of(module, is_layer)]
        self.gathers = {}  # by layer's number: the all-gather; None once it is complete
        self.reducing = None  # the reduce-scatter under way: layer, result, what is sent, work
        for k, layer in enumerate(self.layers):
            layer.module.register_forward_pre_hook(partial(self._before, k, k + 1))
            layer.module.register_forward_hook(partial(self._after_forward, k))
            layer.module.register_full_backward_pre_hook(partial(self._before, k, k - 1))
            layer.when_gradients_are_there(partial(self._after_backward, k))
        ### END SOLUTION

    def shards(self) -> list[nn.Parameter]:
        """This rank's shards, one ``nn.Parameter`` a layer, in order: what an optimizer is given.

        They are flat: part r of the layer's parameters, flattened and joined in the order of
        ``parameters()`` and padded with zeros to a multiple of p elements, in p equal parts.
        """
        ### BEGIN SOLUTION
        return [layer.shard for layer in self.layers]
        ### END SOLUTION

    def forward(self, *args, **kwargs):
        """Call the module with these arguments, and return what it returns."""
        ### BEGIN SOLUTION
        return self.module(*args, **kwargs)
        ### END SOLUTION

    def finish(self) -> None:
        """Wait until each shard's ``grad`` has the mean over all ranks of its gradient.

        Called after each backward pass. The mean is added to what stands in ``grad``, as autograd
        does; None counts as zeros.
        """
        ### BEGIN SOLUTION
        if self.reducing is None:
            return
        layer, part, _, work = self.reducing
        self.reducing = None
        work.wait()
        part /= dist.get_world_size(self.group)
        layer.shard.grad = part if layer.shard.grad is None else layer.shard.grad + part

    def _gather(self, k):
        """Start to gather layer k, if there is one and that hasn't been done."""
        if 0 <= k < len(self.layers) and k not in self.gathers:
            layer = self.layers[k]
            layer.allocate()
            self.gathers[k] = dist.all_gather_into_tensor(
                layer.full, layer.shard.detach(), group=self.group, async_op=True
            )

    def _free(self, k):
        self.layers[k].free()
        del self.gathers[k]

    def _before(self, k, following, *_):
        """Layer k computes now, and the following one next."""
        self._gather(k)
        if self.gathers[k] is not None:
            self.gathers[k].wait()
            self.gathers[k] = None
        self._gather(following)  # not earlier: two gathers at a time share the wire

    def _after_forward(self, k, *_):
        if k < len(self.layers) - 1 or not torch.is_grad_enabled():
            self._free(k)

    def _after_backward(self, k):
        self.finish()  # of the layer before it
        layer = self.layers[k]
        full = layer.take_gradient()
        self._free(k)
        part = torch.empty_like(layer.shard)
        work = dist.reduce_scatter_tensor(part, full, group=self.group, async_op=True)
        self.reducing = layer, part, full, work
        ### END SOLUTION
