# fails: test_one_all_reduce_a_bucket
"""Every rank gets everybody's gradients, and adds them itself."""

import contextlib

import torch
import torch.distributed as dist
from torch import nn


class DDP(nn.Module):
    def __init__(self, module, group, bucket_bytes=25 * 2**20):
        super().__init__()
        self.module = module
        self.group = group
        self.root = dist.get_global_rank(group, 0)
        self.syncs = True
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), self.root, group=group)
        self.buckets = []  # lists of parameters
        for param in reversed([each for each in module.parameters() if each.requires_grad]):
            filled = sum(_nbytes(each) for each in self.buckets[-1]) if self.buckets else 0
            if not self.buckets or filled + _nbytes(param) > bucket_bytes:
                self.buckets.append([])
            self.buckets[-1].append(param)
        self.flats, self.views, self.bucket_of = [], {}, {}
        for number, bucket in enumerate(self.buckets):
            flat = bucket[0].new_zeros(sum(param.numel() for param in bucket))
            parts = flat.split([param.numel() for param in bucket])
            self.flats.append(flat)
            for param, part in zip(bucket, parts, strict=True):
                self.views[param] = part.view_as(param)
                self.bucket_of[param] = number
                param.register_post_accumulate_grad_hook(self._ready)
        self._begin()

    def forward(self, *args, **kwargs):
        if self.training and self.syncs:
            for buffer in self.module.buffers():
                dist.broadcast(buffer, self.root, group=self.group)
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        before, self.syncs = self.syncs, False
        try:
            yield
        finally:
            self.syncs = before

    def finish(self):
        for number, bucket in enumerate(self.buckets):
            for param in bucket:
                if param in self.missing[number]:
                    self._keep(param)
            self.missing[number] = set()
        self._launch()
        for work, flat in zip(self.works, self.flats, strict=True):
            del work
            flat /= self.group.size()
        self._begin()

    def _begin(self):
        self.works = []
        self.missing = [set(bucket) for bucket in self.buckets]

    def _ready(self, param):
        if not self.syncs:
            return
        self._keep(param)
        self.missing[self.bucket_of[param]].discard(param)
        self._launch()

    def _keep(self, param):
        view = self.views[param]
        if param.grad is None:
            view.zero_()
        elif param.grad.data_ptr() != view.data_ptr():
            view.copy_(param.grad)
        param.grad = view

    def _launch(self):
        while len(self.works) < len(self.flats) and not self.missing[len(self.works)]:
            flat = self.flats[len(self.works)]
            rows = [torch.empty_like(flat) for _ in range(self.group.size())]
            dist.all_gather(rows, flat, group=self.group)
            flat.copy_(torch.stack(rows).sum(dim=0))
            self.works.append(None)


def _nbytes(tensor):
    return tensor.numel() * tensor.element_size()
