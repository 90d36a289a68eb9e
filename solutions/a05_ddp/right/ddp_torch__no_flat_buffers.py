"""The gradients of a bucket travel as they are, in one coalesced all-reduce."""

import contextlib
import warnings

import torch
import torch.distributed as dist
from torch import nn


class DDP(nn.Module):
    def __init__(self, module, group, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module, self.group = module, group
        self.first = dist.get_global_rank(group, 0)
        self.quiet = 0
        for each in (*module.parameters(), *module.buffers()):
            dist.broadcast(each.data, src=self.first, group=group)
        self.buckets, room = [], 0
        for param in reversed([*module.parameters()]):
            if not param.requires_grad:
                continue
            size = param.numel() * param.element_size()
            if not self.buckets or size > room:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(param)
            room -= size
            param.register_post_accumulate_grad_hook(self.hook)
        self.waiting, self.done = [], set()

    def forward(self, *args, **kwargs):
        if self.training and not self.quiet:
            for each in self.module.buffers():
                dist.broadcast(each, src=self.first, group=self.group)
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1

    def hook(self, param):
        if not self.quiet:
            self.done.add(param)
            self.go_on()

    def go_on(self):
        for bucket in self.buckets[len(self.waiting) :]:
            if not self.done.issuperset(bucket):
                return
            grads = [param.grad for param in bucket]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                work = dist.all_reduce_coalesced(grads, group=self.group, async_op=True)
            self.waiting.append((work, grads))

    def finish(self):
        for bucket in self.buckets:
            for param in bucket:
                if param.grad is None:
                    param.grad = torch.zeros_like(param)
                self.done.add(param)
        self.go_on()
        for work, grads in self.waiting:
            work.wait()
            for grad in grads:
                grad /= self.group.size()
        self.waiting, self.done = [], set()
