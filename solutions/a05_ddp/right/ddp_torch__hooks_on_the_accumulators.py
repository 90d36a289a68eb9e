"""Hooks sit on the graph's AccumulateGrad nodes; counters tell when a bucket is full."""

import contextlib
from functools import partial

import torch
import torch.distributed as dist
from torch import nn


class DDP(nn.Module):
    def __init__(self, module, group, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module, self.group, self.on = module, group, True
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor, dist.get_global_rank(group, 0), group=group)
        self.params = [param for param in module.parameters() if param.requires_grad][::-1]
        self.cut(bucket_bytes)
        self.nodes = []  # kept alive, or their hooks are lost
        for place, param in enumerate(self.params):
            node = param.expand_as(param).grad_fn.next_functions[0][0]
            node.register_hook(partial(self.accumulated, place))
            self.nodes.append(node)
        self.works, self.ready = [], [False] * len(self.params)

    def cut(self, bucket_bytes):
        self.ranges, lo, filled = [], 0, 0
        for place, param in enumerate(self.params):
            if place > lo and filled + param.nbytes > bucket_bytes:
                self.ranges.append((lo, place))
                lo, filled = place, 0
            filled += param.nbytes
        if self.params:
            self.ranges.append((lo, len(self.params)))
        self.buffers_of = [
            torch.zeros(sum(p.numel() for p in self.params[lo:hi]), dtype=self.params[0].dtype)
            for lo, hi in self.ranges
        ]

    def forward(self, *args, **kwargs):
        if self.on and self.training:
            for buffer in self.module.buffers():
                dist.broadcast(buffer, dist.get_global_rank(self.group, 0), group=self.group)
        return self.module(*args, **kwargs)

    def accumulated(self, place, *_):
        if self.on:
            self.ready[place] = True
            self.advance()

    def advance(self):
        while len(self.works) < len(self.ranges):
            lo, hi = self.ranges[len(self.works)]
            if not all(self.ready[lo:hi]):
                return
            flat, at = self.buffers_of[len(self.works)], 0
            for param in self.params[lo:hi]:
                part = flat[at : at + param.numel()].view_as(param)
                part.copy_(torch.zeros_like(param) if param.grad is None else param.grad)
                param.grad = part
                at += param.numel()
            self.works.append(dist.all_reduce(flat, group=self.group, async_op=True))

    @contextlib.contextmanager
    def no_sync(self):
        before, self.on = self.on, False
        try:
            yield self
        finally:
            self.on = before

    def finish(self):
        self.ready = [True] * len(self.params)
        self.advance()
        for work, flat in zip(self.works, self.buffers_of, strict=True):
            work.wait()
            flat.mul_(1 / self.group.size())
        self.works, self.ready = [], [False] * len(self.params)
